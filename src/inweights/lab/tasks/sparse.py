"""Linear regression with few nonzero weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.linear import Linear


def subset(draw: Draw, xs: Tensor, size: int) -> Tensor:
    """A random set of coordinates for each prompt, `(batch, size)`.

    Coordinates that are zero in all inputs are chosen last: functions of those that a curriculum leaves out would be
    constant.
    """
    used = (xs != 0).any(1)
    return (draw.uniform(xs.shape[2]) - 2 * used.to(draw.dtype)).argsort(1)[:, :size]


@TASKS("sparse")
@dataclass(frozen=True, kw_only=True)
class Sparse(Linear):
    """`w` has `kept` standard normal coordinates at random places, and zeros elsewhere: Garg et al. 2022."""

    kept: int = 3

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(
            1 <= self.kept <= self.dims, f"`kept` is {self.kept}, but must be from 1 to `dims`, {self.dims}."
        )

    @property
    def power(self) -> float:
        return float(self.kept)

    def prior(self, draw: Draw, xs: Tensor) -> Tensor:
        w = draw.normal(self.dims)
        return w * torch.zeros_like(w).scatter(1, subset(draw, xs, self.kept), 1.0)
