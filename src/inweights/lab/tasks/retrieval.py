"""Retrieval of vectors by their keys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from inweights._errors import InputError, Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Sample, Task, curtail


@TASKS("retrieval")
@dataclass(frozen=True, kw_only=True)
class Retrieval(Task):
    """First `pairs` new keys with their values, then keys again, drawn at random; all on the sphere of radius √dims.

    With one point more than `pairs` this is the vector retrieval of Park et al. 2024 (64 pairs); more points give
    several queries, as in MQAR (Arora et al. 2024). `source` is the point where a key first occurred; only later points
    can be predicted.
    """

    pairs: int = 16

    pointwise: ClassVar[bool] = False

    def check(self, problems: Problems) -> None:
        problems.unless(self.dims >= 2, f"`dims` is {self.dims}, but must be at least 2.")
        problems.unless(self.pairs >= 1, f"`pairs` is {self.pairs}, but must be at least 1.")

    @property
    def outputs(self) -> int:
        return self.dims

    @property
    def power(self) -> float:
        return 1.0

    def sample(self, draw: Draw, points: int, *, active: Tensor | int | None = None) -> Sample:
        if points <= self.pairs:
            raise InputError(f"`points` is {points}, but must be above `pairs`, {self.pairs}, to ask for one again.")
        keys, values = self._sphere(draw), self._sphere(draw)
        new = torch.arange(self.pairs, device=draw.device).expand(draw.rows, -1)
        source = torch.cat([new, draw.integers(self.pairs, points - self.pairs)], 1)
        taken = source.unsqueeze(2).expand(-1, -1, self.dims)
        xs, ys = curtail(keys, active).gather(1, taken), values.gather(1, taken)
        again = torch.arange(points, device=draw.device) >= self.pairs
        return Sample(xs, ys, {"source": source, "clean": ys}, scored=again.expand(draw.rows, -1))

    def _sphere(self, draw: Draw) -> Tensor:
        vectors = draw.normal(self.pairs, self.dims)
        return vectors * (math.sqrt(self.dims) / vectors.norm(dim=2, keepdim=True))
