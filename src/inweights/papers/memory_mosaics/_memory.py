"""Associative memories: pairs of keys and values, read by kernel regression."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def recall(keys: Tensor, values: Tensor, queries: Tensor, sharpness: float | Tensor) -> Tensor:
    """The value that a memory expects for each query: the mean of all earlier values, weighted by `exp(β ⟨k, q⟩)`.

    - `keys`, `queries`: `(..., n, width)`, of norm 1. `values`: `(..., n, size)`; the value of position i is known only
      after it, so that position i reads those of the positions before.

    The first position reads zeros.
    """
    n = keys.shape[-2]
    scores = sharpness * (queries @ keys.mT)
    later = torch.ones(n, n, dtype=torch.bool, device=keys.device).triu()
    weights = scores.masked_fill(later, -torch.inf)[..., 1:, :].softmax(-1)
    return F.pad(weights @ values, (0, 0, 1, 0))


class MosaicLayer(nn.Module):
    """One layer of contextual memories over tokens: `(batch, points)`, integers, to logits `(batch, points,
    vocabulary)`.

    The key of a position is a leaky mean of what the tokens up to it are; its value is what the next token is, which
    the memory stores once that is seen. The same keys are the queries, and there are no positions.
    """

    def __init__(self, vocabulary: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Parameter(0.5 * torch.randn(vocabulary, width))
        self.key, self.value = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.leak = nn.Parameter(torch.linspace(-3.0, 0.0, heads))
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 2.0))  # a logarithm
        self.out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        e = self.embedding[tokens]
        keys, values = (self.split(part(e)) for part in (self.key, self.value))
        keys = F.normalize(self.leaky(keys), dim=-1)
        known = F.pad(values[:, :, 1:], (0, 0, 0, 1))  # the value of a position is the next token's
        read = recall(keys, known, keys, self.sharpness.exp())
        logits: Tensor = self.out(read.transpose(1, 2).flatten(2))
        return logits

    def split(self, h: Tensor) -> Tensor:
        """`(batch, points, width)` to `(batch, heads, points, width / heads)`."""
        return h.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def leaky(self, keys: Tensor) -> Tensor:
        """`Σ_j λ^(i − j) k_j` over the positions j ≤ i, with one λ below 1 for each head."""
        n = keys.shape[2]
        back = torch.arange(n, device=keys.device)
        distance = (back.unsqueeze(1) - back).clamp(min=0)
        decay = self.leak.sigmoid().log().view(-1, 1, 1) * distance
        return (decay.exp() * (back.unsqueeze(1) >= back)) @ keys
