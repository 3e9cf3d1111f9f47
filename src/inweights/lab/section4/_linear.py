"""Linear regression in context: `y = ⟨w, x⟩`, a new `w` for every prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Prompts(NamedTuple):
    """Prompts of n solved examples and one query.

    - `context`: the examples `(x_i, y_i)` as tokens, shape `(..., n, dims + 1)`.
    - `query`: `(x, 0)`, shape `(..., dims + 1)`.
    - `target`: the label of the query, shape `(...)`.
    """

    context: Tensor
    query: Tensor
    target: Tensor


@dataclass(frozen=True)
class LinearTask:
    """`w, x ~ N(0, I)`, `y = ⟨w, x⟩`: the task of the paper's section 4."""

    dims: int = 2

    def prompts(self, batch: int, examples: int, *, seed: int, step: int = 0, queries: int = 1) -> Prompts:
        """A batch of prompts that depends on `(seed, step)` alone, so that any batch can be reproduced.

        With `queries > 1` every prompt has that many query points: query and target get one more dimension,
        `(batch, queries, ...)`.
        """
        # An odd multiplier spreads consecutive (seed, step) pairs over all 64 bits.
        mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 1) % 2**63
        generator = torch.Generator().manual_seed(mixed)
        w = torch.randn(batch, self.dims, 1, generator=generator)
        x = torch.randn(batch, examples + queries, self.dims, generator=generator)
        y = x @ w
        context = torch.cat([x, y], -1)[:, :examples]
        query = torch.cat([x, torch.zeros_like(y)], -1)[:, examples:]
        target = y[:, examples:, 0]
        if queries == 1:
            query, target = query.squeeze(1), target.squeeze(1)
        return Prompts(context, query, target)
