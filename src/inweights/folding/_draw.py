"""The batches of examples of a fit."""

from __future__ import annotations

from collections.abc import Sequence

import torch

TOGETHER = 8
"""Batches that are drawn at a time: their examples are sorted by length, so that little is padding."""


class Draws:
    """Batches of examples, all of them once before any of them again, or as many `times` as is given for each;
    `lengths` are the tokens of each example."""

    def __init__(self, lengths: Sequence[int], batch: int, seed: int, times: Sequence[int] = ()) -> None:
        self.lengths, self.size = lengths, min(batch, len(lengths))
        self.all = [i for i, n in enumerate(times or [1] * len(lengths)) for _ in range(n)]
        self.generator = torch.Generator().manual_seed(seed)
        self.line: list[int] = []

    def next(self, batches: int) -> list[list[int]]:
        """The next batches, at most `TOGETHER`."""
        while len(self.line) < TOGETHER * self.size:
            self.line += [self.all[k] for k in torch.randperm(len(self.all), generator=self.generator).tolist()]
        pool, self.line = self.line[: TOGETHER * self.size], self.line[TOGETHER * self.size :]
        pool.sort(key=lambda i: self.lengths[i])
        results = [pool[k : k + self.size] for k in range(0, len(pool), self.size)]
        return [results[k] for k in torch.randperm(len(results), generator=self.generator).tolist()[:batches]]
