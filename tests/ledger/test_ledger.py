"""The ledger runs trials once, caches them, ignores damaged files, and reports what it could not run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure as Canvas

from inweights import InputError
from inweights.ledger import (
    CLAIMS,
    Entry,
    Measurement,
    NotHereError,
    Trial,
    Verdict,
    claim,
    criteria,
    run_claims,
    seeds_of,
)
from inweights.ledger import _criteria as criteria_module
from inweights.ledger._cache import key
from inweights.ledger._facts import facts_file
from inweights.ledger._run import Job, do
from inweights.papers import load_all
from inweights.papers._papers import DHERIN
from inweights.report import _claims as report
from inweights.report._claims import page, record
from inweights.report._claims_figure import Points, figure, write_figure

ID = "test-claim"


def entry(quick: bool = True) -> Entry:
    (found,) = run_claims([CLAIMS[ID]], quick=quick)
    return found


@pytest.mark.parametrize("value", [[], torch.zeros(0)])
def test_a_trial_without_numbers_is_broken_and_ends_nothing(counted: Any, value: Any) -> None:
    counted.found = Measurement({"error": (value, 0.5)})
    found = entry()
    assert (found.verdict, found.broken) == (Verdict.NOT_RUN, True)
    assert found.why == "its trials found different quantities, or no numbers"


def test_a_quick_run_has_three_trials_and_a_full_run_all() -> None:
    """Also where the first seed is not 0."""
    known, needed = load_all(), criteria()
    lengths = {len(seeds_of(c, quick=True)) for c in known.values()}
    assert max(lengths) == 3
    for id, each in known.items():
        assert list(seeds_of(each, quick=False)) == list(needed[id].trials)
        assert list(seeds_of(each, quick=True)) == list(needed[id].trials)[:3]


def test_trials_are_made_once(counted: Any) -> None:
    first = entry()
    assert (first.verdict, first.trials, counted.calls) == (Verdict.PASS, 3, 3)
    assert entry().quantities == first.quantities
    assert counted.calls == 3
    entry(quick=False)  # another setting
    assert counted.calls == 6


def test_a_stopped_run_goes_on(counted: Any) -> None:
    do(Job(ID, Trial(0)))
    do(Job(ID, Trial(2)))
    entry()
    assert counted.calls == 3


@pytest.mark.parametrize("damage", ["", "{", "[]", "not json", '{"sha256": "0", "body": "{}"}', "[" * 200_000])
def test_a_damaged_file_is_not_trusted(counted: Any, damage: str) -> None:
    entry()
    path = key(CLAIMS[ID], Trial(1))
    whole = path.read_text()
    path.write_text(damage)
    assert entry().verdict is Verdict.PASS
    assert counted.calls == 4
    assert path.read_text() != damage
    # A number that was changed by hand is damage too.
    body = json.loads(whole)
    path.write_text(json.dumps(body | {"body": body["body"].replace("1e-12", "1e-11")}))
    entry()
    assert counted.calls == 5


def test_what_is_not_here_is_tried_again(counted: Any) -> None:
    counted.found = NotHereError("`big` is not in the zoo")
    found = entry()
    assert (found.verdict, found.why, found.broken) == (Verdict.NOT_RUN, "`big` is not in the zoo", False)
    counted.found = Measurement({"error": (1e-12, 0.5)})
    assert entry().verdict is Verdict.PASS


def test_too_few_trials_are_no_verdict(monkeypatch: pytest.MonkeyPatch, counted: Any) -> None:
    def only_the_first(self: Any, trial: Trial) -> Measurement:
        if trial.seed:
            raise NotHereError(f"seed {trial.seed} is not in the zoo")
        return Measurement({"error": (1e-12, 0.5)})

    monkeypatch.setattr(type(counted), "__call__", only_the_first)
    found = entry()
    assert (found.verdict, found.trials) == (Verdict.INCONCLUSIVE, 1)
    assert found.why == "1 of 3 trials: seed 1 is not in the zoo"
    assert found.quantities["error"].value.value == 1e-12


def test_what_the_criteria_do_not_ask_for_is_a_broken_claim(counted: Any) -> None:
    counted.found = Measurement({"eror": (1e-12, 0.5)})
    found = entry()
    assert (found.verdict, found.broken) == (Verdict.NOT_RUN, True)
    assert "the criteria are about ['error']" in found.why


def test_a_quick_run_is_not_recorded(counted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results.jsonl").write_text(entry().line() + "\n")
    monkeypatch.setattr(report, "load_all", lambda: {ID: CLAIMS[ID]})
    with pytest.raises(InputError, match="test-claim: it is of a quick run"):
        record(tmp_path, tmp_path)
    assert not (tmp_path / "claims.md").exists()


def test_the_page_shows_every_claim(counted: Any) -> None:
    counted.found = Measurement({"error": ([1e-12], [0.5])}, reported={"paper": 0.25})
    text = page({ID: entry()})
    assert "| `identity`: an equality or inequality that algebra decides, tested on random numbers up to" in text
    assert "| [test-claim](#test-claim) | `PASS` | error 1e-12 | each < 1e-10, control > 0.01 | 0.5 | – |" in text
    assert "Also measured: paper = 0.25." in text
    assert "![test-claim](claims/test-claim.png)" in text


def test_a_claim_that_repeats_another_is_shown_but_not_counted(monkeypatch: pytest.MonkeyPatch, counted: Any) -> None:
    again = replace(CLAIMS[ID], id="test-again", repeats=ID)
    found = entry()
    monkeypatch.setitem(CLAIMS, "test-again", again)
    files = criteria_module.criteria_file(DHERIN.folder), facts_file(DHERIN.folder)
    for file in files:
        monkeypatch.setitem(file, "test-again", file[ID])
    text = page({ID: found, "test-again": replace(found, id="test-again")})
    assert "rounding | 1 |\n\n1 more are shown and not counted." in text
    assert "| [test-again](#test-again) (not counted) | `PASS` |" in text
    assert "Goes with [test-claim](#test-claim); not counted." in text


def test_what_is_repeated_exists_and_counts() -> None:
    known = load_all()
    assert {c.id: c.repeats for c in known.values() if c.repeats and known[c.repeats].uncounted} == {}


def test_a_claim_that_raises_reports_the_line(counted: Any) -> None:
    counted.found = ZeroDivisionError("oops")
    found = entry()
    assert (found.verdict, found.broken) == (Verdict.NOT_RUN, True)
    assert found.why.startswith("ZeroDivisionError: oops (")


def test_a_precondition_makes_it_inconclusive(monkeypatch: pytest.MonkeyPatch, counted: Any) -> None:
    monkeypatch.setattr(type(counted), "__call__", lambda self, trial: trial.require(False, "A(x) is 0"))
    found = entry()
    assert (found.verdict, found.why) == (Verdict.INCONCLUSIVE, "A(x) is 0")


def test_a_sabotaged_control_is_detected(counted: Any) -> None:
    counted.found = Measurement({"error": (1e-12, 1e-12)})
    found = entry()
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.loose


def test_a_rival_that_holds_too_is_no_broken_control(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes the interpretation; what the criteria do not ask for, or lack, is a broken claim."""
    criterion = {"error": {"each": "<1e-10", "control": ">1e-2", "rival": True}, "seeds": 3}
    counted.found = Measurement({"error": (1e-12, 0.5)}, rivals={"error": 1e-12})
    assert entry().broken
    monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), ID, criterion)
    found = entry()
    assert (found.verdict, found.loose, found.broken) == (Verdict.HOLDS_NOT_DIAGNOSTIC, False, False)
    assert found.why == "error: the rival explanation meets the criterion too"
    assert found.rivals == {"error": [1e-12] * 3}
    assert Entry.of(found.line()) == found
    assert "| 0.5 | 1e-12 |" in page({ID: found})


def test_trials_begin_with_the_first_seed(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def noted(self: Any, trial: Trial) -> Measurement:
        seeds.append(trial.seed)
        return Measurement({"error": (1e-12, 0.5)})

    monkeypatch.setattr(type(counted), "__call__", noted)
    criterion = {"error": {"each": "<1e-10", "control": ">1e-2"}, "seeds": 3, "first": 5}
    monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), ID, criterion)
    assert entry().verdict is Verdict.PASS
    assert seeds == [5, 6, 7]


def test_figures_without_a_plot_are_points(counted: Any, tmp_path: Path) -> None:
    """Each trial, what was judged, and the bounds; an infinite number does not end it."""
    found = entry()
    drawn = figure(found)
    assert isinstance(drawn, Points)
    rows = drawn.rows()
    assert [r[1:3] for r in rows if r[0] == "error"] == [(0, 1e-12), (1, 1e-12), (2, 1e-12)]
    assert [r[2] for r in rows if r[0] == "error, control"] == [0.5] * 3
    assert ("error, bound of the value", "", 1e-10, "", "") in rows
    assert ("error, bound of the control", "", 1e-2, "", "") in rows
    axes = Canvas().add_subplot()
    drawn.strips[0].draw(axes)
    points = [line for line in axes.get_lines() if line.get_marker() in ("o", "s")]
    assert [line.get_linestyle() for line in points] == ["None", "None"]
    assert axes.get_yscale() == "log"
    odd = replace(found, seen={"error": ([math.inf, 0.0, -1.0], [math.nan] * 3)})
    assert len(write_figure(tmp_path, odd)) == 2


def test_a_claim_needs_a_complete_docstring() -> None:
    with pytest.raises(ValueError, match="no measured, control, settings"):

        @claim("test-silent", DHERIN, "nowhere")
        def silent(trial: Trial) -> Measurement:
            """A sentence alone."""
            raise AssertionError
