"""Linear regression with several outputs: `y = W x`, a new matrix `W` for every prompt."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task


@TASKS("several-outputs")
@dataclass(frozen=True, kw_only=True)
class SeveralOutputs(Task):
    """`x ~ U(-1/2, 1/2)` in every coordinate, the entries of `W` are standard normal: von Oswald et al. 2023, whose
    construction holds for any number of outputs, with labels of `components` entries."""

    dims: int = 10
    components: int = 3

    def check(self, problems: Problems) -> None:
        problems.unless(self.components >= 1, f"`components` is {self.components}, but must be at least 1.")

    @property
    def outputs(self) -> int:
        return self.components

    @property
    def power(self) -> float:
        return self.dims / 12

    def inputs(self, draw: Draw, points: int) -> Tensor:
        return draw.uniform(points, self.dims, low=-0.5, high=0.5)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(self.components, self.dims)
        ys = xs @ w.mT
        return ys, {"w": w, "clean": ys}
