"""Random blocks and prompts, on which equalities are tested."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.blocks import ContextualBlock, make_block
from inweights.ledger import Trial

WIDTH, TOKENS = 16, 12


def block_and_prompts(trial: Trial, prompts: int, kind: str = "plain") -> tuple[ContextualBlock, Tensor, Tensor]:
    """A random block with softmax attention, contexts `(prompts, TOKENS, WIDTH)` and queries `(prompts, WIDTH)`."""
    random = trial.generator()
    context = torch.randn(prompts, TOKENS, WIDTH, generator=random, dtype=torch.float64)
    query = torch.randn(prompts, WIDTH, generator=random, dtype=torch.float64)
    return make_block(kind, "softmax", width=WIDTH, seed=trial.seed), context, query


def parts(trial: Trial, count: int) -> list[Tensor]:
    """Random parts `Y` of a context, neither empty nor all of it, as masks `(TOKENS,)`."""
    random = trial.generator()
    masks = []
    for i in range(count):
        mask = torch.zeros(TOKENS, dtype=torch.bool)
        mask[torch.randperm(TOKENS, generator=random)[: 1 + i % (TOKENS - 1)]] = True
        masks.append(mask)
    return masks


def each(one: Tensor, other: Tensor) -> Tensor:
    """For every vector `(..., width)` the largest difference, `(...)`: one number for each unit, so that each unit must
    hold, and each control must fail, on its own."""
    return (one - other).detach().abs().amax(-1)


def largest(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors."""
    return float((one - other).detach().abs().max())
