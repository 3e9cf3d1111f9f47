"""Controls of real claims, sabotaged: if control and value have the same setting, no claim passes. Every cheap equality
is really measured once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inweights.ledger import Claim, Verdict, criteria, judge
from inweights.ledger._intervals import Samples
from inweights.papers import load_all

Numbers = dict[str, tuple[Samples, Samples | None]]
SECONDS = 2.0  # of one trial


def cheap(claim: Claim) -> bool:
    """An equality that needs no trained model, and is tested quickly."""
    return claim.exact and not claim.models and claim.cost[0] / criteria()[claim.id].seeds < SECONDS


IDS = [id for id, claim in load_all().items() if cheap(claim)]


def one_control_is_the_value(found: Numbers, name: str) -> Numbers:
    value, _ = found[name]
    return found | {name: (value, value)}


def one_value_is_the_control(found: Numbers, name: str) -> Numbers:
    _, control = found[name]
    assert control is not None
    return found | {name: (control, control)}


def test_there_are_many_of_them() -> None:
    assert len(IDS) >= 30


@pytest.mark.parametrize("id", IDS)
def test_no_claim_passes_if_value_and_control_are_the_same(id: str, as_it_is: Callable[[str, int], Any]) -> None:
    """One quantity at a time, the others as measured. With the claim's setting on both sides the verdict is not a
    failure either: the control did not fail, and that is reported."""
    needed = criteria()[id]
    result: Numbers = {
        name: ([value], None if control is None else [control])
        for name, (value, control) in as_it_is(id, 0).quantities.items()
    }
    honest, _ = judge(needed, result)
    for name, criterion in needed.quantities.items():
        if not criterion.controlled:
            continue
        verdict, judged = judge(needed, one_control_is_the_value(result, name))
        if criterion.corrected:
            assert verdict is not Verdict.ERRATUM, name
            continue
        assert verdict is not Verdict.PASS, name
        if honest is Verdict.PASS:
            assert (verdict, judged[name].why) == (Verdict.INCONCLUSIVE, "the control did not fail")
        assert judge(needed, one_value_is_the_control(result, name))[0] is not Verdict.PASS, name
