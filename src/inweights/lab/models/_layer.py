"""One encoder layer: attention without a mask, then an MLP."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from inweights.lab.models._heads import keyless, merge, split

Mix = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Attention: queries, keys and values, each `(batch, heads, ·, width / heads)`, to the output of every query."""


def softmax_mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention. On a CPU, two plain products are faster than the fused kernel for such short prompts."""
    if q.is_cuda:
        return F.scaled_dot_product_attention(q, k, v)
    return (q * q.shape[-1] ** -0.5 @ k.mT).softmax(-1) @ v


def relu_mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with weights `relu(q·k) / N`, N the number of keys, as in the theory of Bai et al. 2023."""
    return F.relu(q @ k.mT) / k.shape[-2] @ v


class Layer(nn.Module):
    """The function and initialisation of `nn.TransformerEncoderLayer`; faster if only the last token is needed.

    `forward`: `(batch, tokens, width)` to the same shape; with `last`, only the output of the last token,
    `(batch, 1, width)`, which still attends to all tokens.
    """

    def __init__(self, width: int, heads: int, hidden: int, *, mix: Mix, norm_first: bool = False) -> None:
        super().__init__()
        self.heads, self.mix, self.norm_first = heads, mix, norm_first
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Tensor, last: bool = False) -> Tensor:
        own = h[:, -1:] if last else h
        if self.norm_first:
            own = own + self.attend(self.norm1(h), last)
            return own + self.widen(self.norm2(own))
        own = self.norm1(own + self.attend(h, last))
        return self.norm2(own + self.widen(own))

    def attend(self, h: Tensor, last: bool) -> Tensor:
        bias = keyless(self.qkv.bias) if self.mix is softmax_mix else self.qkv.bias
        if last:
            width = h.shape[-1]
            (wq, wkv), (bq, bkv) = (p.split([width, 2 * width]) for p in (self.qkv.weight, bias))
            (q,) = split(F.linear(h[:, -1:], wq, bq), self.heads, 1)
            k, v = split(F.linear(h, wkv, bkv), self.heads, 2)
        else:
            q, k, v = split(F.linear(h, self.qkv.weight, bias), self.heads, 3)
        return self.out(merge(self.mix(q, k, v)))

    def widen(self, h: Tensor) -> Tensor:
        return self.down(F.relu(self.up(h), inplace=True))
