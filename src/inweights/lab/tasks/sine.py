"""Sine waves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task

LEAST, MOST, REACH = 0.1, 5.0, 5.0


@TASKS("sine")
@dataclass(frozen=True, kw_only=True)
class Sine(Task):
    """`y = a sin(x + phase)`, `a ~ U(0.1, 5)`, `phase ~ U(0, π)`, `x ~ U(-5, 5)`: von Oswald et al. 2023.

    These are the paper's numbers. Its code has amplitudes up to 0.5, and draws them with the key of the phase.
    """

    dims: int = 1

    def check(self, problems: Problems) -> None:
        problems.unless(self.dims == 1, f"`dims` is {self.dims}, but waves have 1.")

    @property
    def power(self) -> float:
        return (MOST**3 - LEAST**3) / (3 * (MOST - LEAST)) / 2

    def inputs(self, draw: Draw, points: int) -> Tensor:
        return draw.uniform(points, 1, low=-REACH, high=REACH)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        amplitude, phase = draw.uniform(1, low=LEAST, high=MOST), draw.uniform(1, high=math.pi)
        ys = amplitude * (xs.squeeze(2) + phase).sin()
        return ys, {"amplitude": amplitude.squeeze(1), "phase": phase.squeeze(1), "clean": ys}
