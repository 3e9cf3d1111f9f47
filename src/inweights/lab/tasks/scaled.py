"""Linear regression with weights of another scale."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.linear import Linear


@TASKS("scaled")
@dataclass(frozen=True, kw_only=True)
class Scaled(Linear):
    """`w ~ N(0, spread² I)`, `x ~ N(0, I)`: Akyürek et al. 2023, who write τ for `spread` and σ for `noise`.

    The best predictor is ridge regression with the penalty σ²/τ².
    """

    spread: float = 1.0

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.spread > 0, f"`spread` is {self.spread}, but must be above 0.")

    @property
    def power(self) -> float:
        return self.dims * self.spread**2

    def prior(self, draw: Draw, xs: Tensor) -> Tensor:
        return self.spread * draw.normal(self.dims)
