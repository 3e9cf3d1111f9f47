"""What the exit code of a run of claims says about the record and about controls."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inweights.cli import app
from inweights.cli._contradicted import contradicts, loose
from inweights.ledger import Entry, Interval, Judged, Verdict
from inweights.ledger._judge import CONTROL
from inweights.papers import load_all, recorded


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("was", "code"), [("PASS", 0), ("FAIL", 1), ("ERRATUM", 1), ("INCONCLUSIVE", 1)])
def test_an_exact_claim_that_contradicts_its_record_ends_with_1(
    was: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = replace(recorded()["dherin-theorem"], verdict=Verdict(was))
    monkeypatch.setattr("inweights.papers.recorded", lambda: {"dherin-theorem": before})
    assert CliRunner().invoke(app, ["claims", "run", "dherin-theorem", "--quick"]).exit_code == code


def test_a_quick_run_may_leave_open_whether_a_refuted_sentence_can_be_corrected() -> None:
    fail, erratum, holds = Verdict.FAIL, Verdict.ERRATUM, Verdict.PASS
    assert not contradicts(erratum, fail, quick=True)
    assert not contradicts(fail, erratum, quick=True)
    # Controls: all trials were run; one of them holds.
    assert contradicts(erratum, fail, quick=False)
    assert contradicts(holds, fail, quick=True)
    assert contradicts(fail, holds, quick=True)


@pytest.mark.parametrize(
    ("control", "quick", "full"),
    [((-0.2, -1.5, 0.4), False, True), ((-0.8, -1.5, 0.4), True, True), ((math.nan,) * 3, True, True)],
)
def test_three_trials_may_leave_a_control_open(control: tuple[float, float, float], quick: bool, full: bool) -> None:
    """One that fails on average, whose mean must not be below -0.5; a control: one that does not."""
    load_all()
    judged = Judged(Interval(-1.4, -2.0, -0.9), Interval(*control), Verdict.INCONCLUSIVE, CONTROL)
    entry = Entry("note-depth", Verdict.INCONCLUSIVE, {"exponent": judged})
    assert (loose(entry, quick=True), loose(entry, quick=False)) == (quick, full)
