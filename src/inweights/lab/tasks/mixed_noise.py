"""Linear regression in which every prompt has its own level of noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task, constants
from inweights.lab.tasks.linear import dot


@TASKS("mixed-noise")
@dataclass(frozen=True, kw_only=True)
class MixedNoise(Task):
    """`w ~ N(0, I / dims)`, and the noise of a prompt is one of `levels`: Bai et al. 2023.

    No single ridge regression is best at all levels: the learner has to infer the level from the examples. The text of
    the paper lists these levels; its code adds 0.
    """

    levels: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)

    linear: ClassVar[bool] = True

    def check(self, problems: Problems) -> None:
        problems.unless(
            len(self.levels) > 0 and min(self.levels) >= 0,
            f"`levels` is {self.levels!r}, but must be one or more numbers, none below 0.",
        )

    @property
    def power(self) -> float:
        return 1.0

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(self.dims) / math.sqrt(self.dims)
        level = constants(self.levels, draw)[draw.integers(len(self.levels))]
        clean = dot(xs, w)
        return clean + level.unsqueeze(1) * draw.normal(xs.shape[1]), {"w": w, "clean": clean, "noise": level}
