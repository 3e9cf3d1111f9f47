"""Measures on next-token distributions: accuracy, overlap, order sensitivity, divergence, calibration.

Distributions are log-probabilities `(..., queries, vocabulary)`. What is not an average over queries by its nature is
returned for each query, so that intervals and paired differences can be formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._resample import middle, resamples

K = 10
"""How many of the most likely tokens are compared."""
COSINES = ("penalised", "digest", "padded")
DRAWS = 2000
BINS = 10


@dataclass(frozen=True)
class Top:
    """The K most likely tokens and their probabilities, each `(..., queries, K)`."""

    ids: Tensor
    p: Tensor

    @classmethod
    def of(cls, logp: Tensor, k: int = K) -> Top:
        values, ids = logp.topk(min(k, logp.shape[-1]), -1)
        return cls(ids, values.exp().double())

    def __getitem__(self, at: int) -> Top:
        return Top(self.ids[at], self.p[at])


def token_overlap(one: Top, other: Top) -> Tensor:
    """`|T¹ ∩ T²| / K` of two sets of most likely tokens, `(..., queries)`."""
    return _common(one, other).double().mean(-1)


def overlap_cosines(one: Top, other: Top) -> dict[str, Tensor]:
    """The overlap cosine in three forms, each `(..., queries)`; O are the tokens that both have among their K.

    - `penalised`: `Σ_O p₁p₂ / √(Σ_O p₁² · Σ_O p₂² + (K − |O|))`.
    - `digest`: `Σ_O p₁p₂ / √(Σ_O p₁² · Σ_O p₂² · (K − |O|))`. Its last factor is 0 where all tokens are common: it is
      then left out.
    - `padded`: the cosine of the two top-K vectors over the whole vocabulary, zero elsewhere.

    All are 0 where no token is common.
    """
    same = one.ids.unsqueeze(-1) == other.ids.unsqueeze(-2)  # (..., K, K)
    matched = (same * other.p.unsqueeze(-2)).sum(-1)  # p₂ of the tokens of the first, 0 where it lacks them
    common = same.any(-1)
    missing = common.shape[-1] - common.sum(-1)
    product = (one.p * matched).sum(-1)
    squares = (one.p.square() * common).sum(-1) * matched.square().sum(-1)
    whole = one.p.square().sum(-1) * other.p.square().sum(-1)

    def over(denominator: Tensor) -> Tensor:
        return torch.where(common.any(-1), product / denominator.sqrt().clamp_min(1e-300), 0.0)

    return {
        "penalised": over(squares + missing),
        "digest": over(squares * missing.clamp_min(1)),
        "padded": over(whole),
    }


def _common(one: Top, other: Top) -> Tensor:
    return (one.ids.unsqueeze(-1) == other.ids.unsqueeze(-2)).any(-1)


def order_sensitivity(logp: Tensor, labels: Tensor | None = None) -> Tensor:
    """The standard deviation over orders of each entry's probability, summed over the vocabulary, `(queries,)`.

    `logp` is `(orders, queries, vocabulary)`. With `labels`, over these tokens alone, their probabilities made to add
    up to 1.
    """
    if len(logp) < 2:
        return torch.full(logp.shape[1:2], torch.nan, dtype=torch.float64)
    if labels is not None:
        return logp[..., labels].double().softmax(-1).std(0).sum(-1)
    return torch.stack([logp[:, q].double().exp().std(0).sum() for q in range(logp.shape[1])])


def accuracy(logp: Tensor, right: Tensor, labels: Tensor | None = None) -> Tensor:
    """Whether the most likely token, of all or of the labels, is the right one: 0 or 1, `(..., queries)`."""
    if labels is None:
        return (logp.argmax(-1) == right).double()
    return (labels[logp[..., labels].argmax(-1)] == right).double()


def divergence(logp: Tensor, other: Tensor) -> Tensor:
    """KL(first ‖ second) in nats, `(..., queries)`."""
    return (logp.double().exp() * (logp.double() - other.double())).sum(-1)


def calibration_error(logp: Tensor, right: Tensor, labels: Tensor) -> Tensor:
    """The expected calibration error of the most likely label, over ten bins of its probability: a number."""
    p, chosen = logp[..., labels].double().softmax(-1).max(-1)
    hit = (labels[chosen] == right).double().flatten()
    p = p.flatten()
    place = (p * BINS).long().clamp(max=BINS - 1)
    gap = torch.zeros(BINS, dtype=torch.float64).index_add(0, place, hit - p)
    return gap.abs().sum() / len(p)


def interval(values: Tensor, draws: int = DRAWS, seed: int = 0) -> list[float]:
    """The mean over queries with the ends of its 95% bootstrap interval; `values` are `(queries,)`."""
    values = values.double()
    again = resamples(len(values), draws, torch.Generator().manual_seed(seed))
    low, high = middle(values[again].mean(1))
    return [float(values.mean()), float(low), float(high)]


def pairs_of(count: int) -> Sequence[tuple[int, int]]:
    """All pairs of different orders."""
    return [(i, j) for i in range(count) for j in range(i)]
