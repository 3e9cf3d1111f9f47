"""Controls of real claims, sabotaged: where the world of the control is that of the claim, or the other way round, no
claim passes. What is measured is measured indeed, once, for every equality that is cheap."""

from __future__ import annotations

import pytest

from inweights.ledger import Claim, Trial, Verdict, criteria, judge
from inweights.ledger._cache import Kept
from inweights.ledger._judge import Samples
from inweights.papers import load_all

Numbers = dict[str, tuple[Samples, Samples | None]]
SECONDS = 2.0  # of one trial


def cheap(claim: Claim) -> bool:
    """An equality that needs no trained model, and is put to the test in no time."""
    return claim.exact and not claim.models and claim.cost[0] / criteria()[claim.id].seeds < SECONDS


IDS = [id for id, claim in load_all().items() if cheap(claim)]


def measured(id: str) -> Numbers:
    """What one quick trial finds, as the judge takes it."""
    found = Kept.of(load_all()[id].measure(Trial(0)), "found", "", 0.0).quantities
    return {name: ([value], None if control is None else [control]) for name, (value, control) in found.items()}


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
def test_no_claim_passes_if_value_and_control_are_the_same(id: str) -> None:
    """One quantity at a time, the others being as they were found. With the claim's world on both sides, a claim that
    passes is no failure either: its control did not fail, and that is said."""
    needed, found = criteria()[id], measured(id)
    honest, _ = judge(needed, found)
    for name, criterion in needed.quantities.items():
        if not criterion.controlled:
            continue
        verdict, judged = judge(needed, one_control_is_the_value(found, name))
        assert verdict is not Verdict.PASS, name
        if honest is Verdict.PASS:
            assert (verdict, judged[name].why) == (Verdict.INCONCLUSIVE, "the control did not fail")
        assert judge(needed, one_value_is_the_control(found, name))[0] is not Verdict.PASS, name
