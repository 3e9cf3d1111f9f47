"""Running sums with decay: the one primitive under all prefixes of attention and of linear recurrences."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_scan(decay: Tensor, x: Tensor) -> Tensor:
    """`y_i = decay_i ⊙ y_{i−1} + x_i` for all i at once, `y_{−1} = 0`.

    `x` has shape `(..., n, d)`, `decay` `(..., n, d)` or `(..., n, 1)`; the result has that of `x`.

    After step k every `y_i` sums its last `2^k` inputs, so `log2 n` steps suffice, each one vector
    operation over the whole sequence. Decays are only multiplied, never divided: nothing overflows.
    """
    n, reach = x.shape[-2], 1
    while reach < n:
        earlier = x[..., :-reach, :]
        x = torch.cat([x[..., :reach, :], x[..., reach:, :] + decay[..., reach:, :] * earlier], -2)
        decay = torch.cat([decay[..., :reach, :], decay[..., reach:, :] * decay[..., :-reach, :]], -2)
        reach *= 2
    return x


def running_softmax(scores: Tensor, values: Tensor) -> Tensor:
    """Softmax averages over the first i entries, for every i: shape `(..., n, d)`.

    `scores` has shape `(..., n)`, `values` `(..., n, d)`. The running maximum keeps every exponential
    between 0 and 1, so a late large score does not wipe out the early averages. The first score must be
    finite; others may be −∞ (not seen).
    """
    top = scores.cummax(-1).values
    weight = (scores - top).exp().unsqueeze(-1)
    decay = torch.cat([torch.ones_like(top[..., :1]), (top[..., :-1] - top[..., 1:]).exp()], -1)
    # The sum of the weights is one more column of the weighted sum.
    summed = linear_scan(decay.unsqueeze(-1), torch.cat([weight * values, weight], -1))
    return summed[..., :-1] / summed[..., -1:]
