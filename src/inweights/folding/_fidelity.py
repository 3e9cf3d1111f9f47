"""How much of a prompt's effect is kept: divergences and agreement on held-out answers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inweights._resample import middle, resamples
from inweights.folding._examples import Examples
from inweights.folding._teacher import Teacher
from inweights.models import Model
from inweights.running import at_head, pick

ENOUGH = 8  # queries, below which an interval would be meaningless


@dataclass(frozen=True)
class Distance:
    """How far a model is from the prompted one, for each example: sums over its answer tokens, and their number.

    - `kl`: Σ KL(prompted ‖ this model), `(n,)`; `agree`: how often both choose the same token, of how many `tokens`.
    """

    kl: Tensor
    agree: Tensor
    tokens: Tensor

    @property
    def mean_kl(self) -> float:
        return float(self.kl.sum() / self.tokens.sum())

    @property
    def agreement(self) -> float:
        return float(self.agree.sum() / self.tokens.sum())


def distance(
    model: Model,
    examples: Examples,
    teacher: Teacher,
    changed: AbstractContextManager[Any] | None = None,
    *,
    batch_tokens: int = 1024,
) -> Distance:
    """The bare model, or the model as it is while `changed` is active, against the prompted one."""
    index, weights = examples.answer_rows()
    result = torch.zeros(3, len(examples), dtype=torch.float64)
    result[2] = weights.sum(1)
    net: Any = model.model
    with torch.no_grad(), changed or nullcontext():
        for chosen, batch in examples.batches(batch_tokens):
            rows, w = index[chosen], weights[chosen]
            last = teacher.last[chosen]

            def both(h: Tensor, rows: Tensor = rows, last: Tensor = last) -> Tensor:
                own = pick(h, rows)
                return torch.cat([own.flatten(0, 1), last.to(own.dtype).flatten(0, 1)])

            with at_head(model.model, both):
                logits = net(input_ids=batch.ids, use_cache=False).logits
            kl, same = (x.view_as(w) * w for x in _apart(*logits.chunk(2)))
            result[0, chosen], result[1, chosen] = kl.sum(1).cpu().double(), same.sum(1).cpu().double()
    return Distance(*result)


def _apart(ours: Tensor, theirs: Tensor, rows: int = 256) -> tuple[Tensor, Tensor]:
    """KL(theirs ‖ ours) and whether both choose the same token, row by row; a few rows at a time, to save memory."""
    results = []
    for a, b in zip(ours.split(rows), theirs.split(rows), strict=True):
        la, lb = a.float().log_softmax(-1), b.float().log_softmax(-1)
        results.append(((lb.exp() * (lb - la)).sum(-1), la.argmax(-1) == lb.argmax(-1)))
    kl, same = zip(*results, strict=True)
    return torch.cat(kl), torch.cat(same)


@dataclass(frozen=True)
class Recovered:
    """`1 − KL(prompted ‖ folded) / KL(prompted ‖ bare)`, with a bootstrap interval over the examples, if there are
    enough of them for one."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f} (too few for an interval)"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def recovered(folded: Distance, bare: Distance, *, seed: int = 0, draws: int = 1000) -> Recovered:
    """The share of the prompt's effect that the fold has; 95% of `draws` resamplings lie between the ends."""
    n = len(bare.kl)
    value = float(1 - folded.kl.sum() / bare.kl.sum())
    if n < ENOUGH:
        return Recovered(value, None, None)
    picks = resamples(n, draws, torch.Generator().manual_seed(seed))
    ratios = 1 - folded.kl[picks].sum(1) / bare.kl[picks].sum(1)
    low, high = middle(ratios)
    return Recovered(value, float(low), float(high))
