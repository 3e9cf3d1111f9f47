"""Multi-head attention: splitting the width into heads, and causal attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def split(h: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
    """`(batch, tokens, parts · width)` to `parts` tensors `(batch, heads, tokens, width / heads)`."""
    return h.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4).unbind()


def merge(read: Tensor) -> Tensor:
    """`(batch, heads, tokens, width / heads)` to `(batch, tokens, width)`."""
    return read.transpose(1, 2).flatten(2)


def keyless(bias: Tensor) -> Tensor:
    """The bias `(3 · width,)` of queries, keys and values, with that of the keys set to 0.

    A bias of the keys adds a constant to all logits of a query, which softmax ignores, so that its gradient is only
    rounding error. Adam follows it anyway: in bfloat16 the biases of keys grew to 5, and the keys lost precision.
    """
    q, k, v = bias.chunk(3)
    return torch.cat([q, torch.zeros_like(k), v])


class CausalAttention(nn.Module):
    """Causal softmax attention without positions, `(batch, tokens, width)` to the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        q, k, v = split(self.qkv(h), self.heads, 3)
        return self.out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
