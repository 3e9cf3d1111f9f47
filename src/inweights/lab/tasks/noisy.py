"""Noisy linear regression at the scale of the noiseless one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.linear import Linear


@TASKS("noisy")
@dataclass(frozen=True, kw_only=True)
class Noisy(Linear):
    """`y = scale · (⟨w, x⟩ + noise)`: Garg et al. 2022, who scale labels back to a mean square of `dims`.

    Their code divides by the standard deviation of the whole batch. This divides by its expectation, so that no prompt
    depends on the others. Without `renormalise` it is `linear` with noise.
    """

    noise: float = 1.0
    renormalise: bool = True

    @property
    def scale(self) -> float:
        return math.sqrt(self.dims / (self.dims + self.noise**2)) if self.renormalise else 1.0

    @property
    def level(self) -> float:
        """The standard deviation of the noise in a scaled label."""
        return self.noise * self.scale

    @property
    def power(self) -> float:
        return self.dims * self.scale**2

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        noisy, hidden = super().labels(draw, xs)
        return self.scale * noisy, {name: self.scale * value for name, value in hidden.items()}
