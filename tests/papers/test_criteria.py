"""The criteria and facts of every claim: a control that is as good as the value never passes, nor does a rival."""

from __future__ import annotations

import math

import pytest

from inweights.ledger import CLAIMS, Stratum, Verdict, criteria, facts, judge
from inweights.ledger._criteria import Bound, Criterion
from inweights.ledger._facts import facts_file
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
            return bound.high - 0.5 * abs(bound.high) - (1e-9 if c.scale else 1e-30)
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
    rivals = {name: [[outside(c)]] * 5 for name, c in needed.quantities.items() if c.rival}
    assert judge(needed, honest, rivals)[0] is Verdict.PASS
    for name, c in needed.quantities.items():
        if c.controlled:
            sabotaged = honest | {name: ([[good[name]]] * 5, [[good[name]]] * 5)}
            result, judged = judge(needed, sabotaged, rivals)
            assert result is (Verdict.PASS if c.corrected else Verdict.INCONCLUSIVE)
            assert judged[name].why == "the control did not fail"
        if c.rival:
            result, _ = judge(needed, honest, rivals | {name: [[good[name]]] * 5})
            assert result is Verdict.HOLDS_NOT_DIAGNOSTIC


def test_every_claim_states_its_facts() -> None:
    """The stratum, the paper's value, both kinds of control or why one does not apply, and the precondition."""
    known = facts()
    assert set(known) == set(load_all())
    for id, fact in known.items():
        assert all((fact.paper_value, fact.rival, fact.precondition)), id
        claim = CLAIMS[id]
        file = facts_file(claim.paper.folder)[id]
        for part in ("rival", "precondition"):
            assert not (getattr(claim, part) and getattr(file, part)), f"{id} states its {part} twice"
        assert (fact.stratum is Stratum.NOTE) is (claim.paper.key == "note"), id
        assert not claim.exact or fact.stratum in (Stratum.IDENTITY, Stratum.CONSTRUCTION, Stratum.NOTE), id
        # An equality says nothing about the language model that it was tested on; notes have a stratum of their own.
        on_a_language_model = "smollm2" in claim.needs and not claim.exact and claim.paper.key != "note"
        assert on_a_language_model is (fact.stratum is Stratum.LANGUAGE_MODEL), id
        measured = any(c.rival for c in criteria()[id].quantities.values())
        assert not measured or claim.rival, f"{id}: a rival that is measured is described in the docstring"
    folders = {c.paper.folder for c in CLAIMS.values()}
    assert {id for folder in folders for id in facts_file(folder)} == set(CLAIMS)


EQUAL = ("about as good", "as well as", "does as well", "do as well", "have the loss", "is a step of gradient")


def test_sentences_about_equality_are_tested_as_equivalences() -> None:
    """Unless each number is judged, or the quantity is a distance that is never below 0."""
    for id, claim in load_all().items():
        if any(words in claim.sentence for words in EQUAL) and not claim.exact:
            needed = criteria()[id].quantities
            assert any(c.equivalence or c.each for c in needed.values()) or id in ("garg-linear",), id
