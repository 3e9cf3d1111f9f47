"""Compositions of functions."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task

FIRST = ("kernel", "linear", "quadratic", "relu", "sparse", "tree")
# Their labels are homogeneous in the inputs and have random signs, so that their power follows from that of the inputs.
SECOND = ("hetero", "linear", "relu", "sparse")


@TASKS("composition")
@dataclass(frozen=True, kw_only=True)
class Composition(Task):
    """`y = g(f_1(x), …, f_m(x))`: each f a function of the task `first`, scaled to power 1, g one of the task `second`.

    This is composition as in Li et al. 2023, *Dissecting Chain-of-Thought*: `middle`, the m intermediate values, is
    what a chain of thought would contain; the other latent variables are those of g. `steps` is m.
    """

    first: str = "linear"
    second: str = "relu"
    steps: int = 4

    def check(self, problems: Problems) -> None:
        for name, known in (("first", FIRST), ("second", SECOND)):
            value = getattr(self, name)
            problems.unless(value in known, f"`{name}` is {value!r}, but must be one of {', '.join(known)}.")
        least = 3 if self.second == "sparse" else 1
        problems.unless(self.steps >= least, f"`steps` is {self.steps}, but must be at least {least}.")
        problems.unless(
            self.first != "sparse" or self.dims >= 3, f"`dims` is {self.dims}, but `sparse` needs at least 3."
        )

    @functools.cached_property
    def parts(self) -> tuple[Task, Task]:
        """The tasks of f and g."""
        return TASKS.make(self.first, dims=self.dims), TASKS.make(self.second, dims=self.steps)

    @property
    def power(self) -> float:
        return self.parts[1].power

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        first, second = self.parts
        middle = torch.stack([first.labels(draw, xs)[0] for _ in range(self.steps)], 2) / math.sqrt(first.power)
        ys, hidden = second.labels(draw, middle)
        return ys, {**hidden, "middle": middle}
