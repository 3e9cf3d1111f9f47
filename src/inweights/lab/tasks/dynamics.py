"""Linear dynamical systems."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Sample, Task, curtail


@TASKS("dynamics")
@dataclass(frozen=True, kw_only=True)
class Dynamics(Task):
    """The input is a state; the label is the observation of the next state: Li et al. 2023.

    `x_{t+1} = A x_t + noise` from `x_0 = 0`, and `y_t = C x_{t+1}` with `observed` numbers. A is a normal matrix,
    rescaled to the spectral radius `radius`; C is normal with the variance `1 / observed`. `clean` is `C A x_t`.
    """

    dims: int = 10
    observed: int = 1
    radius: float = 0.9
    noise: float = 0.1

    pointwise: ClassVar[bool] = False

    def check(self, problems: Problems) -> None:
        problems.unless(self.observed >= 1, f"`observed` is {self.observed}, but must be at least 1.")
        problems.unless(0 < self.radius < 1, f"`radius` is {self.radius}, but must be between 0 and 1.")
        problems.unless(self.noise > 0, f"`noise` is {self.noise}, but must be above 0: it alone moves the states.")

    @property
    def outputs(self) -> int:
        return self.observed

    @property
    def power(self) -> float:
        """The stationary mean square of a label; earlier labels are smaller, since states begin at 0."""
        return self.noise**2 * _growth(self.dims, self.radius) / self.observed

    def sample(self, draw: Draw, points: int, *, active: Tensor | int | None = None) -> Sample:
        step = _systems(draw, self.dims, self.radius)
        seen = draw.normal(self.observed, self.dims) / math.sqrt(self.observed)
        # Noise in the first coordinates alone would still reach the others: rows and columns of A are set to zero.
        step = curtail(curtail(step, active).mT, active).mT
        noise = self.noise * curtail(draw.normal(points, self.dims), active)
        state, states = torch.zeros_like(noise[:, 0]), []
        for t in range(points):
            states.append(state)
            state = (step @ state.unsqueeze(2)).squeeze(2) + noise[:, t]
        xs = torch.stack([*states, state], 1)
        ys, clean = xs[:, 1:] @ seen.mT, xs[:, :-1] @ (seen @ step).mT
        if self.observed == 1:
            ys, clean = ys.squeeze(2), clean.squeeze(2)
        return Sample(xs[:, :-1], ys, {"A": step, "C": seen, "clean": clean})


def spectral_radius(matrices: Tensor) -> Tensor:
    """The largest absolute eigenvalue of each of `(batch, n, n)`, as the limit of `‖Aᵏ‖^(1/k)` at k = 2²⁰.

    Repeated squaring needs only matrix products; eigenvalues would be computed on the host.
    """
    logarithm = torch.zeros_like(matrices[:, 0, 0])
    for doubled in range(21):
        norm = matrices.norm(dim=(1, 2))
        logarithm = logarithm + norm.log() / 2**doubled
        matrices = matrices / norm[:, None, None]
        matrices = matrices @ matrices
    return logarithm.exp()


def _systems(draw: Draw, dims: int, radius: float) -> Tensor:
    normal = draw.normal(dims, dims)
    return normal * (radius / spectral_radius(normal))[:, None, None]


@functools.cache
def _growth(dims: int, radius: float) -> float:
    """The mean over systems of `Σ ‖Aᵏ‖²` over k ≥ 1: the ratio of the state's power to that of its noise.

    It has no simple closed form; this is the mean of 2,048 systems. The number of terms is doubled until convergence.
    """
    power = _systems(Draw(0, -1, 2048, dtype=torch.float64), dims, radius)
    total = power.mT @ power
    for _ in range(16):
        total = total + power.mT @ total @ power
        power = power @ power
    return float(total.diagonal(dim1=1, dim2=2).sum(1).mean())
