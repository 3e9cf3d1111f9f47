"""The criteria of every claim: a control that is as good as the value never passes, and every change has its reason."""

from __future__ import annotations

import math

import pytest

from inweights.ledger import Verdict, criteria, judge
from inweights.ledger._criteria import Bound, Criterion, changes
from inweights.papers import load_all


@pytest.mark.parametrize("id", load_all())
def test_a_sabotaged_control_never_passes(id: str) -> None:
    """For every claim of the ledger: values that satisfy its criteria pass, until one control is as good as they."""
    needed = criteria()[id]

    def cut(bound: Bound, c: Criterion) -> Bound:
        return Bound(max(bound.low, c.range.low), min(bound.high, c.range.high)) if c.range else bound

    def inside(bound: Bound, c: Criterion) -> float:
        bound = cut(bound, c)
        if math.isinf(bound.low):
            return bound.high - 0.5 * abs(bound.high) - 1e-30
        return bound.low + (0.5 * abs(bound.low) + 1 if math.isinf(bound.high) else (bound.high - bound.low) / 2)

    def outside(c: Criterion) -> float:
        low, high = c.bound.low, c.bound.high
        sides = [Bound(-math.inf, low)] * math.isfinite(low) + [Bound(high, math.inf)] * math.isfinite(high)
        return inside(sides[0], c)

    good, bad = {}, {}
    for name, c in needed.quantities.items():
        good[name] = inside(c.bound, c)
        bad[name] = inside(c.control, c) if c.control else outside(c)
    honest = {name: ([[good[name]]] * 5, [[bad[name]]] * 5) for name in good}
    assert judge(needed, honest)[0] is Verdict.PASS
    for name, c in needed.quantities.items():
        if c.controlled:
            sabotaged = honest | {name: ([[good[name]]] * 5, [[good[name]]] * 5)}
            found, judged = judge(needed, sabotaged)
            assert found is Verdict.INCONCLUSIVE
            assert judged[name].why == "the control did not fail"


def test_every_change_says_why_and_what_had_been_seen() -> None:
    assert changes()
    for change in changes():
        assert change.claim in criteria() or change.now.startswith("deleted")
        assert all((change.was, change.now, change.reason, change.seen))
