"""The simplest contextual layer: the mean of the tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from inweights.blocks._layer import ContextualLayer


class MeanPool(ContextualLayer):
    """`A(C, x) = W mean(c_1, …, c_n, x)`."""

    def __init__(self, width: int, out: int | None = None) -> None:
        super().__init__(width, out)
        self.v = nn.Linear(width, self.out, bias=False)

    def forward(self, tokens: Tensor, query: Tensor, keep: Tensor | None = None) -> Tensor:
        if keep is None:
            keep = tokens.new_ones(tokens.shape[-2], dtype=torch.bool)
        seen = keep.unsqueeze(-1).to(tokens.dtype)
        return self.v(((tokens * seen).sum(-2) + query) / (seen.sum(-2) + 1))

    def prefixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        return self._means(_query_first(tokens, query))

    def suffixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        return self._means(_query_first(tokens.flip(-2), query)).flip(-2)

    def sequence(self, tokens: Tensor) -> Tensor:
        return self._means(tokens)

    def _means(self, tokens: Tensor) -> Tensor:
        count = torch.arange(1, tokens.shape[-2] + 1, device=tokens.device, dtype=tokens.dtype)
        return self.v(tokens.cumsum(-2) / count.unsqueeze(-1))


def _query_first(tokens: Tensor, query: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(tokens.shape[:-2], query.shape[:-1])
    x = query.unsqueeze(-2)
    return torch.cat([x.expand(*batch, *x.shape[-2:]), tokens.expand(*batch, *tokens.shape[-2:])], -2)
