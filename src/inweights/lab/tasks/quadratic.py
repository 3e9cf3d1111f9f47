"""Quadratic functions without mixed terms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task
from inweights.lab.tasks.linear import dot


@TASKS("quadratic")
@dataclass(frozen=True, kw_only=True)
class Quadratic(Task):
    """`y = Σ w_i x_i² / √3`, `w, x ~ N(0, I)`: Garg et al. 2022. The factor gives it the scale of `linear`."""

    @property
    def power(self) -> float:
        return float(self.dims)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(self.dims)
        ys = dot(xs.square(), w) / math.sqrt(3)
        return ys, {"w": w, "clean": ys}
