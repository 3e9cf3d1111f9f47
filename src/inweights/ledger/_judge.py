"""Verdicts, derived only from the results of a claim's trials and its criteria."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from scipy.special import stdtrit

from inweights.ledger._criteria import Criteria, Criterion
from inweights.ledger._intervals import Interval, Samples, best, log_mean, mean, worst

NO_NUMBER, CONTROL = "not a number", "the control did not fail"
RIVAL = "the rival explanation meets the criterion too"


class Verdict(StrEnum):
    """`PASS` and `FAIL`: the sentence holds, or does not, where the negative control fails as it must.
    `HOLDS-NOT-DIAGNOSTIC`: it holds, and so does a rival explanation, so that it is no evidence for its own.
    `ERRATUM`: it fails as it is written, by an index, a transpose or an edge case, and holds when that is corrected.
    `INCONCLUSIVE`: the interval straddles the bound, a precondition did not hold, or the control did not fail.
    `NOT-RUN`: something that the claim needs is missing, or its program failed; the reason is given."""

    PASS = "PASS"
    FAIL = "FAIL"
    HOLDS_NOT_DIAGNOSTIC = "HOLDS-NOT-DIAGNOSTIC"
    ERRATUM = "ERRATUM"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_RUN = "NOT-RUN"


@dataclass(frozen=True)
class Judged:
    """The judgement of one quantity: its value, the values of control and rival, and the verdict."""

    value: Interval
    control: Interval | None
    verdict: Verdict
    why: str = ""
    rival: Interval | None = None

    @property
    def loose(self) -> bool:
        """Whether the control did not fail, or the value is not a number."""
        return self.why in (NO_NUMBER, CONTROL)


def judge(
    criteria: Criteria,
    result: Mapping[str, tuple[Samples, Samples | None]],
    rivals: Mapping[str, Samples] | None = None,
) -> tuple[Verdict, dict[str, Judged]]:
    """The verdict of a claim, and of each of its quantities, from the numbers of its trials."""
    rivals = rivals or {}
    if set(result) != set(criteria.quantities):
        raise ValueError(f"found {sorted(result)}, but the criteria are about {sorted(criteria.quantities)}")
    asked = {name for name, c in criteria.quantities.items() if c.rival}
    if set(rivals) != asked:
        raise ValueError(f"found rivals of {sorted(rivals)}, but the criteria ask for those of {sorted(asked)}")
    intervals = {name: measured(c, *result[name], rivals.get(name)) for name, c in criteria.quantities.items()}
    return decide(criteria, intervals, max(len(values) for values, _ in result.values()))


Measured = tuple[Interval, Interval | None, Interval | None]
"""The intervals of a value, its negative control, and its rival explanation."""


def measured(c: Criterion, values: Samples, controls: Samples | None, rivals: Samples | None = None) -> Measured:
    """The intervals by which a quantity is judged. Of an `each` criterion, that is the worst number of the values and,
    of control and rival, the best: the one that comes closest to what it must not do."""
    if c.controlled and controls is None:
        raise ValueError("a control is missing")

    def whole(samples: Samples, others: Samples | None) -> Interval:
        return log_mean([fmean(t) for t in samples], c.scale) if c.scale else mean(samples, others)

    if c.each:
        value, control = worst(c.bound, values), None
        rival = best(c.bound, rivals) if rivals is not None else None
        if c.controlled and controls is not None:
            control = worst(c.control, controls) if c.control else best(c.bound, controls)
    else:
        value = whole(values, controls)
        control = whole(controls, values) if c.controlled and controls is not None else None
        rival = whole(rivals, values) if rivals is not None else None
    return value.within(c.range), control and control.within(c.range), rival and rival.within(c.range)


def decide(criteria: Criteria, results: Mapping[str, Measured], trials: int) -> tuple[Verdict, dict[str, Judged]]:
    """The verdict of a claim from its intervals.

    All quantities must pass, so that a wrong PASS of the claim is rarer than one of a single quantity. One is enough to
    fail: intervals are widened for it (`_against`). A failure counts only where its own control behaves as required or,
    without one, all others do. If a control does not fail, the verdict is never PASS.
    """
    of_means = sum(not c.each and not c.corrected for c in criteria.quantities.values())
    factor = _against(of_means, trials)
    judged = {name: _judged(c, *results[name], factor) for name, c in criteria.quantities.items()}
    main = {name: j for name, j in judged.items() if not criteria.quantities[name].corrected}
    loose = any(j.loose for j in main.values())
    failed = [criteria.quantities[name] for name, j in main.items() if j.verdict is Verdict.FAIL]
    if any(c.controlled or not loose for c in failed):
        right = [j.verdict for name, j in judged.items() if name not in main]
        corrected = bool(right) and set(right) == {Verdict.PASS}
        return (Verdict.ERRATUM if corrected else Verdict.FAIL), judged
    verdicts = {j.verdict for j in main.values()}
    if verdicts <= {Verdict.PASS, Verdict.HOLDS_NOT_DIAGNOSTIC}:
        return (Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.HOLDS_NOT_DIAGNOSTIC), judged
    return Verdict.INCONCLUSIVE, judged


def _against(means: int, trials: int) -> float:
    """The factor by which 95% intervals are widened before a quantity may fail. A true one misses its bound in 2.5% of
    cases; of several, one would do so in more than 5%, so that each is allowed its share of 4%."""
    if means < 2 or trials < 2:
        return 1.0
    return float(stdtrit(trials - 1, 1 - 0.04 / means) / stdtrit(trials - 1, 0.975))


def _judged(c: Criterion, value: Interval, control: Interval | None, rival: Interval | None, against: float) -> Judged:
    if math.isnan(value.value):
        return Judged(value, control, Verdict.INCONCLUSIVE, NO_NUMBER, rival)
    if control is not None:
        fails = c.control.holds if c.control else c.bound.misses
        if not (control.finite and fails(control.low, control.high)):
            return Judged(value, control, Verdict.INCONCLUSIVE, CONTROL, rival)
    if c.bound.holds(value.low, value.high):
        if rival is not None and not c.bound.misses(rival.low, rival.high):
            return Judged(value, control, Verdict.HOLDS_NOT_DIAGNOSTIC, RIVAL, rival)
        return Judged(value, control, Verdict.PASS, "", rival)
    wide = value if c.each else value.wider(against)
    missed = c.bound.misses(wide.low, wide.high)
    return Judged(value, control, Verdict.FAIL if missed else Verdict.INCONCLUSIVE, "", rival)
