"""Smooth functions: draws from a Gaussian process."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task
from inweights.lab.tasks.linear import dot


@TASKS("kernel")
@dataclass(frozen=True, kw_only=True)
class Kernel(Task):
    """Functions with the covariance `exp(-‖x - x′‖² / 2ℓ²)`, where ℓ is `length` times the root of `dims`.

    They are sums of random Fourier features (Rahimi and Recht 2007), new ones for each prompt. A Cholesky factor of the
    covariance would give an exact Gaussian process, but it is singular in float32 if points are close, and synchronises
    with the device. The covariance of the features is exact for any number of them, and the distribution is nearly
    normal for many.
    """

    length: float = 1.0
    features: int = 256
    noise: float = 0.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.length > 0, f"`length` is {self.length}, but must be above 0.")
        problems.unless(self.features >= 1, f"`features` is {self.features}, but must be at least 1.")
        problems.unless(self.noise >= 0, f"`noise` is {self.noise}, but must be at least 0.")

    @property
    def power(self) -> float:
        return 1.0

    @property
    def scale(self) -> float:
        """The length ℓ of the kernel."""
        return self.length * math.sqrt(self.dims)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        frequencies = draw.normal(self.dims, self.features) / self.scale
        phases = draw.uniform(1, self.features, high=2 * math.pi)
        weights = draw.normal(self.features) * math.sqrt(2 / self.features)
        clean = dot((xs @ frequencies + phases).cos(), weights)
        noisy = clean + self.noise * draw.normal(xs.shape[1]) if self.noise else clean
        return noisy, {"frequencies": frequencies, "phases": phases.squeeze(1), "weights": weights, "clean": clean}
