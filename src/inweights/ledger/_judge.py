"""Verdicts: from what the trials of a claim found, by its criteria and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from scipy import stats
from torch import Tensor

from inweights.lab import bootstrap
from inweights.ledger._criteria import Bound, Criteria, Criterion

ROUNDING = 1e-6  # of a cosine in float32
SHARE = Bound(0.0, 1.0)


class Verdict(StrEnum):
    """`INCONCLUSIVE`: the interval straddles the bound, a precondition did not hold, or the control did not fail.
    `NOT-RUN`: for want of what it needs, which is named."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_RUN = "NOT-RUN"


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval; of an `each`, the worst trial."""

    value: float
    low: float
    high: float

    def within(self, range: Bound | None) -> Interval:
        """Cut to where the quantity lies by its nature."""
        if range is None or math.isnan(self.value):
            return self
        if not range.low - ROUNDING <= self.value <= range.high + ROUNDING:
            raise ValueError(f"{self.value:g} is outside of its range, {range}")
        return Interval(*(min(max(n, range.low), range.high) for n in (self.value, self.low, self.high)))

    @property
    def finite(self) -> bool:
        return all(map(math.isfinite, (self.value, self.low, self.high)))


@dataclass(frozen=True)
class Judged:
    """One quantity: what was found, what the control gave, and what follows."""

    value: Interval
    control: Interval | None
    verdict: Verdict
    why: str = ""


Samples = Sequence[Sequence[float]]
"""For each trial its numbers: one, or one for each unit."""


def judge(criteria: Criteria, result: dict[str, tuple[Samples, Samples | None]]) -> tuple[Verdict, dict[str, Judged]]:
    """The verdict of a claim, and of each of its quantities.

    One that fails, its own control being as it should, is enough to fail; all must pass to pass. A control that does
    not fail is never a pass.
    """
    if set(result) != set(criteria.quantities):
        raise ValueError(f"found {sorted(result)}, but the criteria are about {sorted(criteria.quantities)}")
    judged = {name: _judged(c, *result[name]) for name, c in criteria.quantities.items()}
    verdicts = {j.verdict for j in judged.values()}
    loose = any(j.why for j in judged.values())
    failed = [criteria.quantities[name] for name, j in judged.items() if j.verdict is Verdict.FAIL]
    if any(c.controlled or not loose for c in failed):
        return Verdict.FAIL, judged
    return (Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.INCONCLUSIVE), judged


def _judged(criterion: Criterion, values: Samples, controls: Samples | None) -> Judged:
    value = _worst(criterion.bound, values) if criterion.each else mean(values, controls)
    value, control = value.within(criterion.range), None
    if criterion.controlled:
        if controls is None:
            raise ValueError("a control is missing")
        # The control is judged at its best: the number that comes nearest to holding.
        best = _worst(criterion.control, controls) if criterion.control else _best(criterion.bound, controls)
        control = (best if criterion.each else mean(controls, values)).within(criterion.range)
    if math.isnan(value.value):
        return Judged(value, control, Verdict.INCONCLUSIVE, "not a number")
    if control is not None:
        fails = criterion.control.holds if criterion.control else criterion.bound.misses
        if not (control.finite and fails(control.low, control.high)):
            return Judged(value, control, Verdict.INCONCLUSIVE, "the control did not fail")
    if criterion.bound.holds(value.low, value.high):
        return Judged(value, control, Verdict.PASS)
    missed = criterion.bound.misses(value.low, value.high)
    return Judged(value, control, Verdict.FAIL if missed else Verdict.INCONCLUSIVE)


def mean(samples: Samples, others: Samples | None = None) -> Interval:
    """The mean over trials with its 95% interval: the bootstrap's, and of what is counted at least Wilson's.

    Zeros and ones can be all alike by chance, of which the bootstrap would make a certainty: of 15 hits out of 15 it
    would say [1, 1], Wilson says [0.80, 1]. Wilson's is of all units together; where trials differ from each other by
    more than their units do, the bootstrap's is the wider one, and counts.

    Counted is what has several units in a trial, all 0 or 1; or one in each, if with the other side (`others`: the
    control, or the value) there are both zeros and ones and nothing else: a single number may be 0 or 1 without being
    counted, such as a loss that is cut there, or a difference of nothing.

    No interval is cut to the least and the largest number that were seen: the mean of many more may lie beyond those of
    five. It is cut where the criteria name a range, and shares end at 0 and 1.
    """
    result = resampled([torch.tensor(trial, dtype=torch.float64) for trial in samples])
    units = [n for trial in samples for n in trial]
    both = {*units, *(n for trial in others or () for n in trial)}
    if not (set(units) <= {0.0, 1.0} and (len(units) > len(samples) or both == {0.0, 1.0})):
        return result
    wilson = stats.binomtest(int(sum(units)), len(units)).proportion_ci(method="wilson")
    return Interval(result.value, min(result.low, wilson.low), max(result.high, wilson.high)).within(SHARE)


def _worst(bound: Bound, samples: Samples) -> Interval:
    """The number that is farthest outside of a bound, or least inside."""
    return _extreme(samples, lambda n: max(bound.low - n, n - bound.high))


def _best(bound: Bound, samples: Samples) -> Interval:
    """The number that is farthest inside, or least outside."""
    return _extreme(samples, lambda n: -max(bound.low - n, n - bound.high))


def _extreme(samples: Samples, by: Callable[[float], float]) -> Interval:
    numbers = [n for trial in samples for n in trial]
    result = math.nan if any(map(math.isnan, numbers)) else max(numbers, key=by)
    return Interval(result, result, result)


def resampled(trials: list[Tensor], draws: int = 2000, seed: int = 0) -> Interval:
    """The mean over trials of their means, and its 95% bootstrap interval: trials are drawn again, and units in each.

    Of a few trials the bootstrap sees too little: among five it would hold the truth in 84 of 100 cases. The interval
    is therefore widened as Student's is against the normal one.
    """
    value = torch.stack([t.mean() for t in trials]).mean().item()
    if not math.isfinite(value):
        return Interval(value, value, value)
    generator = torch.Generator().manual_seed(seed)
    means = []
    for trial in trials:
        again = torch.randint(len(trial), (draws, len(trial)), generator=generator)
        means.append(trial[again].mean(1))
    few = max(len(t) for t in trials) if len(trials) == 1 else len(trials)
    chosen = torch.randint(len(trials), (draws, len(trials)), generator=generator)
    drawn = torch.stack(means, 1).gather(1, chosen).mean(1)
    low, high = drawn.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    student = float(stats.t.ppf(0.975, few - 1) / stats.norm.ppf(0.975)) if few > 1 else 1.0
    wide = student * (few / max(1, few - 1)) ** 0.5
    low, high = value - wide * (value - low), value + wide * (high - value)
    return Interval(value, low, high)


def band(lines: Tensor) -> tuple[list[float], list[float], list[float]]:
    """Mean, low and high of `(trials, points)`."""
    result = bootstrap(lines)
    return result.mean.tolist(), result.low.tolist(), result.high.tolist()
