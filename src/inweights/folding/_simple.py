"""Two simpler folds in the same frame, to compare with: thought vectors, and means of the theorem's updates."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.folding._examples import Batch, Examples
from inweights.folding._layers import Rule, ignore, solve_blocks
from inweights.folding._ridge import cut
from inweights.models import Model
from inweights.running import DEFAULT_LIMIT
from inweights.theory import Update, norm, wide


def thought_vector(
    model: Model,
    examples: Examples,
    *,
    batch_tokens: int = 1024,
    limit: int = DEFAULT_LIMIT,
    after: Callable[[int, int], None] = ignore,
) -> dict[str, Update]:
    """One vector for each block: the mean over the answers of what the stream after attention lacks.

    The last matrix adds it. Most models have no bias there, so it is the smallest update that adds the vector `δ` to
    the result for the mean input `h̄`: `δ h̄ᵀ/‖h̄‖²`, of rank one. (Where nothing shows the stream after attention, as
    in parallel blocks, `δ` is what the block's output lacks.)
    """
    rule = Rule(_answers, lambda name: _Vector(), aim="stream")
    return solve_blocks(model, examples, rule, batch_tokens, limit, after)


def mean_rank_one(
    model: Model,
    examples: Examples,
    *,
    rank: int | None = None,
    batch_tokens: int = 1024,
    limit: int = DEFAULT_LIMIT,
    after: Callable[[int, int], None] = ignore,
) -> dict[str, Update]:
    """The mean over the answers' tokens of the theorem's updates `W ΔA aᵀ/‖a‖²`, cut to the nearest of some rank.

    So for the matrices that read the MLP's input; the last matrix gets the mean of `δ hᵀ/‖h‖²`, which adds what is
    still missing for each token alone.
    """
    if rank is not None and rank < 1:
        raise InputError(f"`rank` is {rank}, but must be at least 1.")
    rule = Rule(_answers, lambda name: _Mean(rank), lambda name: _Mean(rank))
    return solve_blocks(model, examples, rule, batch_tokens, limit, after)


def _answers(batch: Batch) -> Tensor:
    """Tokens of answers have equal weights, all others 0, as has the first token of a sequence."""
    each = batch.answers.to(torch.float32)
    each[:, 0] = 0
    return each


class _Vector:
    """The update that adds the mean of what is missing to the result for the mean input."""

    def __init__(self) -> None:
        self.x: Tensor | None = None
        self.y: Tensor | None = None

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        seen = weight > 0
        x, y = wide(x[seen]).sum(0), wide(y[seen]).sum(0)
        self.x = x if self.x is None else self.x + x
        self.y = y if self.y is None else self.y + y

    def update(self, W: Tensor | None = None) -> Update:
        assert self.x is not None
        assert self.y is not None
        # Both are sums over the same tokens: their number cancels.
        size = self.x.square().sum().clamp_min(torch.finfo(self.x.dtype).tiny)
        made = Update(self.y.unsqueeze(-1), (self.x / size).unsqueeze(-1))
        return made if W is None else made.premultiplied(wide(W))


class _Mean:
    """The mean of the updates `y xᵀ/‖x‖²` that serve each token alone."""

    def __init__(self, rank: int | None) -> None:
        self.rank = rank
        self.sum: Tensor | None = None
        self.count = 0

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        seen = weight > 0
        x, y = wide(x[seen]), wide(y[seen])
        size = norm(x).clamp_min(torch.finfo(x.dtype).tiny ** 0.5)
        total = (y / size).mT @ (x / size)
        self.sum = total if self.sum is None else self.sum.add_(total)
        self.count += len(x)

    def update(self, W: Tensor | None = None) -> Update:
        assert self.sum is not None
        mean = self.sum / max(self.count, 1)
        return cut(mean if W is None else wide(W) @ mean, None, self.rank)
