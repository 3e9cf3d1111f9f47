"""Predictions of a decoder for other queries than the next points, in one forward pass.

Prefix by prefix, n queries cost as much as n / 2 whole prompts. Here the examples are processed once, and each query is
an additional token, which attends to the examples before it and to itself, and to which no other token attends.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab.models._decoder import DecoderBlock, DecoderModel
from inweights.lab.models._heads import keyless, merge, split
from inweights.lab.models._learner import ask
from inweights.lab.models._pairs import pairs, shaped_like, turns


@ask.register
def ask_decoder(model: DecoderModel, xs: Tensor, ys: Tensor, queries: Tensor) -> Tensor:
    """The same predictions as `ask`, up to rounding."""
    points, dims = xs.shape[1], xs.shape[2]
    if model.two:
        tokens, asked = turns(xs, ys), turns(queries, torch.zeros_like(ys))[:, ::2]
    else:
        tokens = pairs(xs, ys)
        asked = torch.cat([tokens[..., :-dims], queries], -1)
    at = torch.arange(points, device=xs.device) * (2 if model.two else 1)  # the position of each query
    h = model.read_in(torch.cat([tokens, asked], 1))
    h = h + torch.cat([model.positions[: tokens.shape[1]], model.positions[at]])
    sees = _sees(tokens.shape[1], at)
    for block in model.blocks:
        assert isinstance(block, DecoderBlock)
        q, k, v = split(F.linear(block.norm1(h), block.qkv.weight, keyless(block.qkv.bias)), block.heads, 3)
        h = h + block.out(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=sees)))
        h = h + block.down(F.gelu(block.up(block.norm2(h)), approximate="tanh"))
    return shaped_like(ys, model.read_out(model.norm(h[:, tokens.shape[1] :])))


def _sees(tokens: int, at: Tensor) -> Tensor:
    """The attention mask `(tokens + n, tokens + n)` with n queries at the positions `at`, `(n,)`; true is visible."""
    place = torch.cat([torch.arange(tokens, device=at.device), at])
    query = torch.arange(len(place), device=at.device) >= tokens
    itself = torch.eye(len(place), dtype=torch.bool, device=at.device)
    return itself | ((place.unsqueeze(1) > place) & ~query)
