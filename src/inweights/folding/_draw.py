"""Which examples the steps of a fit look at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

TOGETHER = 8
"""Batches that are drawn at a time: they share out their examples by length, so that little is padding."""


class Draws:
    """Batches of examples: all of them once before any of them again, then those more often that are still far off.

    - `lengths`: tokens of each example.
    - `harder`: the power of their divergence that the later draws go with; 0 draws all alike, each pass in full.
    """

    def __init__(self, lengths: Sequence[int], batch: int, harder: float, seed: int) -> None:
        self.lengths, self.harder, self.size = lengths, harder, min(batch, len(lengths))
        self.generator = torch.Generator().manual_seed(seed)
        self.line: list[int] = []
        self.passes = 0

    def next(self, batches: int, difficulty: Tensor) -> list[list[int]]:
        """The next batches; `difficulty` is the last divergence of each example, `(n,)`."""
        count = min(batches, TOGETHER)
        while len(self.line) < TOGETHER * self.size:
            self.line += self._pass(difficulty)
        pool, self.line = self.line[: TOGETHER * self.size], self.line[TOGETHER * self.size :]
        pool.sort(key=lambda i: self.lengths[i])
        results = [pool[k : k + self.size] for k in range(0, len(pool), self.size)]
        return [results[k] for k in torch.randperm(len(results), generator=self.generator).tolist()[:count]]

    def _pass(self, difficulty: Tensor) -> list[int]:
        self.passes += 1
        n = len(self.lengths)
        if not self.harder or self.passes == 1:
            return torch.randperm(n, generator=self.generator).tolist()
        weights = difficulty.float().cpu().clamp_min(1e-3).pow(self.harder)
        count = min(n, TOGETHER * self.size)  # soon measured again
        return torch.multinomial(weights / weights.sum(), count, generator=self.generator).tolist()
