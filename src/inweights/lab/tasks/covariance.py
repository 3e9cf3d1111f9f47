"""Linear regression on anisotropic inputs, with a randomly rotated covariance: a fixed one, or one for each prompt.

A fixed rotation depends only on `which`, not on the seed of the prompts: tests of a model need the covariance that it
was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._rotations import rotations, skewed_roots
from inweights.lab.tasks._task import TASKS, constants
from inweights.lab.tasks.linear import Linear


@dataclass(frozen=True, kw_only=True)
class Turned(Linear):
    """The common base: `x ~ N(0, Σ)` with `Σ = U diag(roots²) Uᵀ`."""

    which: int = 0

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.which >= 0, f"`which` is {self.which}, but must be at least 0.")

    def roots(self, draw: Draw) -> Tensor:
        """Standard deviations along the axes, `(dims,)`."""
        raise NotImplementedError

    def covariance(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
        """Σ, `(dims, dims)`."""
        fixed = self._fixed(device, dtype)
        root = self._axes(fixed) * self.roots(fixed)
        return root @ root.T

    def inputs(self, draw: Draw, points: int) -> Tensor:
        return (draw.normal(points, self.dims) * self.roots(draw)) @ self._axes(self._fixed(draw.device, draw.dtype)).T

    def _fixed(self, device: torch.device | str, dtype: torch.dtype) -> Draw:
        return Draw(self.which, -1, 1, device=device, dtype=dtype)

    def _axes(self, fixed: Draw) -> Tensor:
        """U, `(dims, dims)`."""
        return rotations(fixed, self.dims)[0]


@TASKS("skewed")
@dataclass(frozen=True, kw_only=True)
class Skewed(Turned):
    """Eigenvalues proportional to 1, 1/4, 1/9, … with a mean of 1, `w ~ N(0, I)`: Garg et al. 2022."""

    def roots(self, draw: Draw) -> Tensor:
        return skewed_roots(draw, self.dims)


@TASKS("rotated")
@dataclass(frozen=True, kw_only=True)
class Rotated(Turned):
    """`w ~ N(0, Σ⁻¹)`: Ahn et al. 2023. All directions contribute equally to the labels."""

    dims: int = 5
    eigenvalues: tuple[float, ...] = (1.0, 1.0, 0.25, 0.0625, 1.0)

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(
            len(self.eigenvalues) == self.dims and min(self.eigenvalues) > 0,
            f"`eigenvalues` is {self.eigenvalues!r}, but must be `dims`, {self.dims}, numbers above 0.",
        )

    def roots(self, draw: Draw) -> Tensor:
        return constants(self.eigenvalues, draw).sqrt()

    def prior(self, draw: Draw, xs: Tensor) -> Tensor:
        return (draw.normal(self.dims) / self.roots(draw)) @ self._axes(self._fixed(draw.device, draw.dtype)).T


@TASKS("conditioned")
@dataclass(frozen=True, kw_only=True)
class Conditioned(Linear):
    """Inputs with a covariance of their own for each prompt: half of its eigenvalues are `condition` times the others,
    their mean is 1, and the axes are drawn anew; `w ~ N(0, I)`: Fu et al. 2023. No model can learn the covariance."""

    dims: int = 6
    condition: float = 100.0

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.dims % 2 == 0, f"`dims` is {self.dims}, but must be even.")
        problems.unless(self.condition >= 1, f"`condition` is {self.condition}, but must be at least 1.")

    def inputs(self, draw: Draw, points: int) -> Tensor:
        half = self.dims // 2
        values = constants((self.condition,) * half + (1.0,) * half, draw)
        roots = (values / values.mean()).sqrt()
        return (draw.normal(points, self.dims) * roots) @ rotations(draw, self.dims).mT
