"""Exchangeable sequences: every input is 1, and labels are drawn around one hidden number.

The best prediction is a shrunken mean of the labels so far. Falck et al. 2024 test on these sequences whether a model
is Bayesian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task


@dataclass(frozen=True, kw_only=True)
class Exchangeable(Task):
    """The common base, with inputs that are all 1."""

    dims: int = 1

    pointwise: ClassVar[bool] = False

    def inputs(self, draw: Draw, points: int) -> Tensor:
        return torch.ones(draw.rows, points, self.dims, dtype=draw.dtype, device=draw.device)


@TASKS("bernoulli")
@dataclass(frozen=True, kw_only=True)
class Bernoulli(Exchangeable):
    """1 with a probability from U(0, 1), else 0; trained with squared loss, so that predictions are probabilities."""

    @property
    def power(self) -> float:
        return 1 / 3

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        p = draw.uniform(1)
        return draw.bernoulli(p, xs.shape[1]), {"p": p.squeeze(1), "clean": p.expand(xs.shape[:2])}


@TASKS("gaussian")
@dataclass(frozen=True, kw_only=True)
class Gaussian(Exchangeable):
    """`N(mean, noise²)` with `mean ~ N(0, spread²)`. Falck et al. compare with a `spread` of 10."""

    spread: float = 1.0
    noise: float = 1.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.spread > 0, f"`spread` is {self.spread}, but must be above 0.")
        problems.unless(self.noise >= 0, f"`noise` is {self.noise}, but must be at least 0.")

    @property
    def power(self) -> float:
        return self.spread**2

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        mean = self.spread * draw.normal(1)
        ys = mean + self.noise * draw.normal(xs.shape[1])
        return ys, {"mean": mean.squeeze(1), "clean": mean.expand(xs.shape[:2])}
