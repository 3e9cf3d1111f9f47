"""Small neural networks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task
from inweights.lab.tasks.linear import dot


@TASKS("relu")
@dataclass(frozen=True, kw_only=True)
class Relu(Task):
    """`y = √(2 / width) · Σ v_j max(0, ⟨u_j, x⟩)`, all weights standard normal: Garg et al. 2022.

    The factor gives labels the scale of `linear`.
    """

    width: int = 100

    def check(self, problems: Problems) -> None:
        problems.unless(self.width >= 1, f"`width` is {self.width}, but must be at least 1.")

    @property
    def power(self) -> float:
        return float(self.dims)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        inner, outer = draw.normal(self.dims, self.width), draw.normal(self.width)
        ys = dot((xs @ inner).relu(), outer) * math.sqrt(2 / self.width)
        return ys, {"inner": inner, "outer": outer, "clean": ys}
