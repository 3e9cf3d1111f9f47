"""Linear classification, with labels 1 and −1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Loss, Task
from inweights.lab.tasks.linear import dot


@TASKS("sign")
@dataclass(frozen=True, kw_only=True)
class Sign(Task):
    """The sign of `⟨w, x⟩`, `w, x ~ N(0, I)`: the classification of Bai et al. 2023."""

    loss: ClassVar[Loss] = "logistic"

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(self.dims)
        ys = 2 * (dot(xs, w) > 0).to(xs.dtype) - 1
        return ys, {"w": w, "clean": ys}


@TASKS("logistic")
@dataclass(frozen=True, kw_only=True)
class Logistic(Task):
    """1 with the probability `σ(⟨w, x⟩)`, else −1: a logistic model, one of those in Bai et al. 2023.

    `w ~ N(0, scale² I / dims)`, so that a logit has the standard deviation `scale`. `clean` is the mean of a label.
    """

    scale: float = 2.0

    loss: ClassVar[Loss] = "logistic"

    def check(self, problems: Problems) -> None:
        problems.unless(self.scale > 0, f"`scale` is {self.scale}, but must be above 0.")

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(self.dims) * (self.scale / math.sqrt(self.dims))
        logits = dot(xs, w)
        ys = 2 * draw.bernoulli(logits.sigmoid(), xs.shape[1]) - 1
        return ys, {"w": w, "logits": logits, "clean": (logits / 2).tanh()}
