"""Tests of arXiv 2406.00793: are a model's own continuations of a sequence exchangeable, as those of a Bayesian are?

A sequence of zeros and ones is continued by the model itself; a predictive rule that learns as Bayes' rule does gives
a martingale: what it expects of an observation does not depend on how far ahead it lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models import Model
from inweights.running import last_logits, widened

LAGS = 3
REPLICATES = 300
TOLERANCE = 0.1
"""Extra width of intervals, divided by the length of the observed sequence."""

Sampler = Callable[[Tensor, int, int, torch.Generator], Tensor]
"""`sampler(observed (n,), paths, steps, generator)` → continuations `(paths, steps)` of zeros and ones."""


def bayesian(observed: Tensor, paths: int, steps: int, generator: torch.Generator) -> Tensor:
    """Continuations by the predictive rule of a Bernoulli with a uniform prior: the reference."""
    ones = torch.full((paths,), float(observed.sum()) + 1, dtype=torch.float64)
    total, drawn = float(len(observed)) + 2, []
    for _ in range(steps):
        z = (torch.rand(paths, generator=generator, dtype=torch.float64) < ones / total).double()
        ones, total = ones + z, total + 1
        drawn.append(z)
    return torch.stack(drawn, 1)


def recent(observed: Tensor, paths: int, steps: int, generator: torch.Generator) -> Tensor:
    """Continuations by a rule that depends on the last two observations alone, so that near ones agree more than far
    ones: the control that must be rejected."""
    seen = observed[-2:].double().expand(paths, -1)
    drawn = []
    for _ in range(steps):
        p = 0.1 + 0.8 * seen[:, -2:].mean(1)
        z = (torch.rand(paths, generator=generator, dtype=torch.float64) < p).double()
        seen = torch.cat([seen, z.unsqueeze(1)], 1)
        drawn.append(z)
    return torch.stack(drawn, 1)


@dataclass(frozen=True)
class Statistics:
    """The three statistics of continuations `(paths, steps)`.

    - `t1`: the mean of the first half less that of the second.
    - `t2`: for lags 1, 2, …: the autocorrelation at a longer lag less that at lag 1.
    - `t3`: the interquartile range over paths of their means: how uncertain the rule still is.
    """

    t1: float
    t2: tuple[float, ...]
    t3: float

    @classmethod
    def of(cls, z: Tensor) -> Statistics:
        half = z.shape[1] // 2
        square = z.square().mean().clamp_min(1e-9)
        lag = [float((z[:, k:] * z[:, :-k]).mean() / square) for k in range(1, LAGS + 2)]
        means = z.mean(1)
        spread = means.quantile(0.75) - means.quantile(0.25)
        return cls(float(z[:, :half].mean() - z[:, half:].mean()), tuple(c - lag[0] for c in lag[1:]), float(spread))


@dataclass(frozen=True)
class Tested:
    """Which statistics lie outside the interval of a Bayesian's continuations in 95 of 100 cases.

    The interval is widened for the number of statistics, so that all of T1 and T2 together lie inside in 95 of 100.
    """

    statistics: Statistics
    t1_outside: bool
    t2_outside: bool
    t3_ratio: float

    @property
    def violated(self) -> bool:
        return self.t1_outside or self.t2_outside


def martingale_test(sampler: Sampler, observed: Tensor, steps: int, paths: int, generator: torch.Generator) -> Tested:
    """Compares the continuations of a rule with the reference's, given the same observations."""
    result = Statistics.of(sampler(observed, paths, steps, generator))
    reference = [Statistics.of(bayesian(observed, paths, steps, generator)) for _ in range(REPLICATES)]
    columns = torch.tensor([(r.t1, *r.t2) for r in reference], dtype=torch.float64)
    share = 0.05 / columns.shape[1] / 2
    extra = TOLERANCE / len(observed)
    low, high = columns.quantile(share, 0) - extra, columns.quantile(1 - share, 0) + extra
    own = torch.tensor((result.t1, *result.t2), dtype=torch.float64)
    outside = (own < low) | (own > high)
    usual = torch.tensor([r.t3 for r in reference], dtype=torch.float64).median()
    return Tested(result, bool(outside[0]), bool(outside[1:].any()), result.t3 / max(float(usual), 1e-9))


def by_model(model: Model) -> Sampler:
    """The model as a rule: it reads `0,1,1,` and so on, and samples the next digit by its probabilities of the two."""
    tok: Any = model.tokenizer
    digits = [tok(d, add_special_tokens=False)["input_ids"] for d in ("0", "1")]
    comma = tok(",", add_special_tokens=False)["input_ids"]
    if any(len(ids) != 1 for ids in (*digits, comma)) or digits[0] == digits[1]:
        raise InputError("The tokenizer of this model has no single tokens for 0, 1 and the comma.")
    both, comma_id = torch.tensor([ids[0] for ids in digits], device=model.device), comma[0]

    @torch.no_grad()
    def sampler(observed: Tensor, paths: int, steps: int, generator: torch.Generator) -> Tensor:
        net = model.model
        start = [t for z in observed.long().tolist() for t in (int(both[z]), comma_id)]
        out = net(input_ids=torch.tensor([start], device=model.device), use_cache=True, **last_logits(net))
        cache, logits = widened(out.past_key_values, paths), out.logits[:, -1].expand(paths, -1)
        drawn = []
        for _ in range(steps):
            p = logits[:, both].double().softmax(-1)[:, 1].cpu()
            z = (torch.rand(paths, generator=generator, dtype=torch.float64) < p).long()
            drawn.append(z.double())
            ids = torch.stack([both[z.to(model.device)], torch.full_like(both[:1], comma_id).expand(paths)], 1)
            out = net(input_ids=ids, past_key_values=cache, use_cache=True, **last_logits(net))
            cache, logits = out.past_key_values, out.logits[:, -1]
        return torch.stack(drawn, 1)

    return sampler
