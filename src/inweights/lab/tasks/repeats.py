"""Repeated random tokens: a task for induction heads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Loss, Sample, Task


@TASKS("repeats")
@dataclass(frozen=True, kw_only=True)
class Repeats(Task):
    """A random sequence of `shortest` to `longest` tokens, repeated; labels are the next tokens.

    Olsson et al. 2022 repeat 25 tokens. If all sequences have the same length, looking back by a fixed distance is
    enough; varying lengths require induction. From the point `begins` on, the next token has been seen before.
    """

    dims: int = 1
    vocabulary: int = 64
    shortest: int = 25
    longest: int = 25

    loss: ClassVar[Loss] = "tokens"
    pointwise: ClassVar[bool] = False

    def check(self, problems: Problems) -> None:
        problems.unless(self.dims == 1, f"`dims` is {self.dims}, but tokens have 1.")
        problems.unless(self.vocabulary >= 2, f"`vocabulary` is {self.vocabulary}, but must be at least 2.")
        problems.unless(
            1 <= self.shortest <= self.longest,
            f"`shortest` is {self.shortest}, but must be from 1 to `longest`, {self.longest}.",
        )

    @property
    def outputs(self) -> int:
        return self.vocabulary

    @property
    def power(self) -> float:
        return math.log(self.vocabulary)

    def sample(self, draw: Draw, points: int, *, active: Tensor | int | None = None) -> Sample:
        """Draws a batch. `active` has no effect, as tokens have no coordinates."""
        once = draw.integers(self.vocabulary, self.longest)
        begins = self.shortest + draw.integers(self.longest - self.shortest + 1)
        place = torch.arange(points + 1, device=draw.device) % begins.unsqueeze(1)
        tokens = once.gather(1, place)
        # At point i the label is the token at i + 1, which repeats the first token from `begins` on.
        known = torch.arange(1, points + 1, device=draw.device) >= begins.unsqueeze(1)
        return Sample(tokens[:, :-1], tokens[:, 1:], {"begins": begins, "clean": tokens[:, 1:]}, scored=known)
