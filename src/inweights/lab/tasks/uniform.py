"""Linear regression on inputs from a cube."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.linear import Linear


@TASKS("uniform")
@dataclass(frozen=True, kw_only=True)
class Uniform(Linear):
    """`x ~ U(-width / 2, width / 2)`, `w ~ N(0, I)`: von Oswald et al. 2023.

    The paper writes U(-1, 1). Its code draws from U(-0.5, 0.5), and the numbers that it prints follow from that.
    """

    dims: int = 10
    width: float = 1.0

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.width > 0, f"`width` is {self.width}, but must be above 0.")

    @property
    def power(self) -> float:
        return self.dims * self.width**2 / 12

    def inputs(self, draw: Draw, points: int) -> Tensor:
        return draw.uniform(points, self.dims, low=-self.width / 2, high=self.width / 2)
