"""Sparse parity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Loss, Task
from inweights.lab.tasks.sparse import subset


@TASKS("parity")
@dataclass(frozen=True, kw_only=True)
class Parity(Task):
    """The product of `kept` coordinates of inputs 1 and −1: Park et al. 2024.

    Every prompt has its own set of coordinates. The code of the paper draws one set for a whole batch, so that prompts
    are not independent.
    """

    dims: int = 10
    kept: int = 2

    loss: ClassVar[Loss] = "logistic"

    def check(self, problems: Problems) -> None:
        problems.unless(
            1 <= self.kept <= self.dims, f"`kept` is {self.kept}, but must be from 1 to `dims`, {self.dims}."
        )

    def inputs(self, draw: Draw, points: int) -> Tensor:
        return 2 * draw.bernoulli(0.5, points, self.dims) - 1

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        chosen = subset(draw, xs, self.kept)
        ys = xs.gather(2, chosen.unsqueeze(1).expand(-1, xs.shape[1], -1)).prod(2)
        return ys, {"chosen": chosen, "clean": ys}
