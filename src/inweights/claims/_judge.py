"""Verdicts: from what the trials of a claim found, by its criteria and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from inweights.claims._criteria import Bound, Criteria, Criterion
from inweights.lab import bootstrap


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


def judge(criteria: Criteria, found: dict[str, tuple[Samples, Samples | None]]) -> tuple[Verdict, dict[str, Judged]]:
    """The verdict of a claim, and of each of its quantities.

    One that fails is enough to fail; all must pass to pass. A control that does not fail is never a pass.
    """
    if set(found) != set(criteria.quantities):
        raise ValueError(f"found {sorted(found)}, but the criteria are about {sorted(criteria.quantities)}")
    judged = {name: _judged(c, *found[name]) for name, c in criteria.quantities.items()}
    verdicts = {j.verdict for j in judged.values()}
    loose = any(j.why for j in judged.values())
    if Verdict.FAIL in verdicts and not loose:
        return Verdict.FAIL, judged
    return (Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.INCONCLUSIVE), judged


def _judged(criterion: Criterion, values: Samples, controls: Samples | None) -> Judged:
    value = _interval(criterion, criterion.bound, values, worst_is_high=_high(criterion.bound))
    if not value.finite:
        return Judged(value, None, Verdict.INCONCLUSIVE, "not a finite number")
    control = None
    if criterion.controlled:
        if controls is None:
            raise ValueError("a control is missing")
        # The control is judged at its best: the trial that comes nearest to holding.
        wanted = criterion.control or criterion.bound
        control = _interval(criterion, wanted, controls, worst_is_high=_high(wanted) == bool(criterion.control))
        fails = wanted.holds if criterion.control else wanted.misses
        if not (control.finite and fails(control.low, control.high)):
            return Judged(value, control, Verdict.INCONCLUSIVE, "the control did not fail")
    if criterion.bound.holds(value.low, value.high):
        return Judged(value, control, Verdict.PASS)
    missed = criterion.bound.misses(value.low, value.high)
    return Judged(value, control, Verdict.FAIL if missed else Verdict.INCONCLUSIVE)


def _high(bound: Bound) -> bool:
    """Whether large numbers are the bad ones."""
    return math.isinf(bound.low)


def _interval(criterion: Criterion, bound: Bound, samples: Samples, *, worst_is_high: bool) -> Interval:
    if criterion.each:
        numbers = [n for trial in samples for n in trial]
        if not all(map(math.isfinite, numbers)):
            return Interval(math.nan, math.nan, math.nan)
        worst = max(numbers) if worst_is_high else min(numbers)
        return Interval(worst, worst, worst)
    return resampled([torch.tensor(trial, dtype=torch.float64) for trial in samples])


def resampled(trials: list[Tensor], draws: int = 2000, seed: int = 0) -> Interval:
    """The mean over trials of their means, and its bootstrap interval: trials are drawn again, and units in each."""
    generator = torch.Generator().manual_seed(seed)
    means = []
    for trial in trials:
        if len(trial) == 1:
            means.append(trial.expand(draws))
        else:
            again = torch.randint(len(trial), (draws, len(trial)), generator=generator)
            means.append(trial[again].mean(1))
    value = torch.stack([t.mean() for t in trials]).mean().item()
    if len(trials) == 1:
        low, high = torch.stack(means).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        return Interval(value, low, high)
    chosen = torch.randint(len(trials), (draws, len(trials)), generator=generator)
    drawn = torch.stack(means, 1).gather(1, chosen).mean(1)
    low, high = drawn.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(value, low, high)


def band(lines: Tensor) -> tuple[list[float], list[float], list[float]]:
    """Mean, low and high of `(trials, points)`."""
    found = bootstrap(lines)
    return found.mean.tolist(), found.low.tolist(), found.high.tolist()
