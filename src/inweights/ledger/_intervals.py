"""Intervals of measured quantities: of means over trials, of ratios, and the worst number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from inweights.lab import bootstrap
from inweights.ledger._criteria import Bound

ROUNDING = 1e-6  # of a cosine in float32
SHARE = Bound(0.0, 1.0)

Samples = Sequence[Sequence[float]]
"""The numbers of each trial: one, or one for each unit."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval; for an `each` criterion, the worst number, with an interval of width zero."""

    value: float
    low: float
    high: float

    def within(self, range: Bound | None) -> Interval:
        """The interval clipped to the range of the quantity. A value outside the range is an error."""
        if range is None or math.isnan(self.value):
            return self
        if not range.low - ROUNDING <= self.value <= range.high + ROUNDING:
            raise ValueError(f"{self.value:g} is outside of its range, {range}")
        return Interval(*(min(max(n, range.low), range.high) for n in (self.value, self.low, self.high)))

    def wider(self, factor: float) -> Interval:
        """The interval with both half-widths multiplied by a factor."""
        if factor == 1 or not self.finite:
            return self
        low, high = self.value - factor * (self.value - self.low), self.value + factor * (self.high - self.value)
        return Interval(self.value, low, high)

    @property
    def finite(self) -> bool:
        return all(map(math.isfinite, (self.value, self.low, self.high)))


def mean(samples: Samples, others: Samples | None = None) -> Interval:
    """The mean over trials with its 95% interval: the bootstrap's, and for proportions at least Wilson's.

    Zeros and ones can all be equal by chance, in which case the bootstrap interval has width zero: for 15 hits out of
    15 it is [1, 1], while Wilson's is [0.80, 1]. Wilson's interval pools all units; where trials differ from each other
    more than their units do, the bootstrap's is wider and is used.

    A quantity is a proportion if trials have several units, all 0 or 1; or if each trial has one unit and, together
    with the other side (`others`: the control, or the value), both zeros and ones occur and nothing else. A single
    number may be 0 or 1 without being a proportion, such as a loss clipped at that value, or a difference of zero.

    Intervals are not clipped to the smallest and largest observed number, as the mean over many more trials may lie
    outside those of five. They are clipped to the range in the criteria, and proportions to [0, 1].
    """
    result = resampled([torch.tensor(trial, dtype=torch.float64) for trial in samples])
    units = [n for trial in samples for n in trial]
    both = {*units, *(n for trial in others or () for n in trial)}
    if not (set(units) <= {0.0, 1.0} and (len(units) > len(samples) or both == {0.0, 1.0})):
        return result
    from scipy.stats import binomtest  # here, because it takes as long to import as all else of this package

    wilson = binomtest(int(sum(units)), len(units)).proportion_ci(method="wilson")
    return Interval(result.value, min(result.low, wilson.low), max(result.high, wilson.high)).within(SHARE)


def log_mean(means: Sequence[float], scale: str) -> Interval:
    """The geometric mean of ratios, one for each trial, with Student's 95% interval of the mean of their logarithms.

    `scale` is "log" for ratios, and "excess" for ratios minus 1, of which the result is one too. The arithmetic mean of
    ratios depends on which of the two numbers is below the line, and one large ratio outweighs all others. A ratio that
    is not positive has no logarithm: the result is then not a number. One trial alone has an infinite interval.
    """
    shift = 1.0 if scale == "excess" else 0.0
    if not all(math.isfinite(m) and m + shift > 0 for m in means):
        return Interval(math.nan, math.nan, math.nan)
    logs = [math.log(m + shift) for m in means]
    middle, n = fmean(logs), len(logs)
    half = float(stdtrit(n - 1, 0.975)) * stdev(logs) / n**0.5 if n > 1 else math.inf
    with suppress(OverflowError):
        return Interval(*(math.exp(x) - shift for x in (middle, middle - half, middle + half)))
    return Interval(math.exp(middle) - shift, -shift, math.inf)


def worst(bound: Bound, samples: Samples) -> Interval:
    """The number farthest outside of a bound or, if all are inside, closest to its edge."""
    return _extreme(samples, lambda n: max(bound.low - n, n - bound.high))


def best(bound: Bound, samples: Samples) -> Interval:
    """The number farthest inside a bound or, if all are outside, closest to it."""
    return _extreme(samples, lambda n: -max(bound.low - n, n - bound.high))


def _extreme(samples: Samples, by: Callable[[float], float]) -> Interval:
    numbers = [n for trial in samples for n in trial]
    result = math.nan if any(map(math.isnan, numbers)) else max(numbers, key=by)
    return Interval(result, result, result)


def resampled(trials: list[Tensor], draws: int = 2000, seed: int = 0) -> Interval:
    """The mean over trials of their means, with a 95% bootstrap interval: trials and the units in them are resampled.

    With few trials the bootstrap interval is too narrow: with five it covers the true mean in 84 of 100 cases. It is
    therefore widened by the ratio of Student's quantile to the normal one, and by √(n/(n−1)) for n trials.
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
    student = float(stdtrit(few - 1, 0.975) / ndtri(0.975)) if few > 1 else 1.0
    wide = student * (few / max(1, few - 1)) ** 0.5
    low, high = value - wide * (value - low), value + wide * (high - value)
    return Interval(value, low, high)


def band(lines: Tensor) -> tuple[list[float], list[float], list[float]]:
    """The mean over trials with its lower and upper bootstrap bound, at each point; `lines` is `(trials, points)`."""
    result = bootstrap(lines)
    return result.mean.tolist(), result.low.tolist(), result.high.tolist()
