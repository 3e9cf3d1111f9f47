"""The ledger makes trials once, keeps them, trusts nothing that is damaged, and says what it could not run."""

from __future__ import annotations

import json
import linecache
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights import InputError
from inweights.claims import CLAIMS, Entry, Found, NotHereError, Plot, Trial, Verdict, _code, claim, load_all, run
from inweights.claims import _criteria as criteria_module
from inweights.claims._code import program
from inweights.claims._keep import key
from inweights.claims._ledger import Job, do
from inweights.claims._papers import DHERIN
from inweights.report._claims import page, record

ID = "test-claim"


class Counted:
    """A claim that counts how often it is really run."""

    def __init__(self) -> None:
        self.calls = 0
        self.found: Found | Exception = Found({"error": (1e-12, 0.5)}, told={"paper": 0.2})

    def __call__(self, trial: Trial) -> Found:
        self.calls += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Counted]:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(criteria_module._file(), ID, {"error": {"each": "<1e-10", "control": ">1e-2"}, "seeds": 3})
    body = Counted()

    def measure(trial: Trial) -> Found:
        """A sentence.

        Measured: a number.

        Control: another number.

        Settings: none.
        """
        return body(trial)

    claim(ID, DHERIN, "nowhere", exact=True)(measure)
    yield body
    del CLAIMS[ID]


def entry(quick: bool = True) -> Entry:
    (found,) = run([CLAIMS[ID]], quick=quick)
    return found


@pytest.mark.parametrize("value", [[], torch.zeros(0)])
def test_a_trial_without_numbers_is_broken_and_ends_nothing(counted: Counted, value: Any) -> None:
    counted.found = Found({"error": (value, 0.5)})
    found = entry()
    assert (found.verdict, found.broken) == (Verdict.NOT_RUN, True)
    assert found.why == "its trials found different quantities, or no numbers"


def test_trials_are_made_once(counted: Counted) -> None:
    first = entry()
    assert (first.verdict, first.trials, counted.calls) == (Verdict.PASS, 3, 3)
    assert entry().quantities == first.quantities
    assert counted.calls == 3
    entry(quick=False)  # another setting
    assert counted.calls == 6


def test_a_stopped_run_goes_on(counted: Counted) -> None:
    do(Job(ID, Trial(0)))
    do(Job(ID, Trial(2)))
    entry()
    assert counted.calls == 3


@pytest.mark.parametrize("damage", ["", "{", "[]", "not json", '{"sha256": "0", "body": "{}"}'])
def test_a_damaged_file_is_not_trusted(counted: Counted, damage: str) -> None:
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


def test_what_is_not_here_is_tried_again(counted: Counted) -> None:
    counted.found = NotHereError("`big` is not in the zoo")
    found = entry()
    assert (found.verdict, found.why, found.broken) == (Verdict.NOT_RUN, "`big` is not in the zoo", False)
    counted.found = Found({"error": (1e-12, 0.5)})
    assert entry().verdict is Verdict.PASS


def test_too_few_trials_are_no_verdict(monkeypatch: pytest.MonkeyPatch, counted: Counted) -> None:
    def only_the_first(self: Counted, trial: Trial) -> Found:
        if trial.seed:
            raise NotHereError(f"seed {trial.seed} is not in the zoo")
        return Found({"error": (1e-12, 0.5)})

    monkeypatch.setattr(Counted, "__call__", only_the_first)
    found = entry()
    assert (found.verdict, found.trials) == (Verdict.INCONCLUSIVE, 1)
    assert found.why == "1 of 3 trials: seed 1 is not in the zoo"
    assert found.quantities["error"].value.value == 1e-12


def test_what_the_criteria_do_not_ask_for_is_a_broken_claim(counted: Counted) -> None:
    counted.found = Found({"eror": (1e-12, 0.5)})
    found = entry()
    assert (found.verdict, found.broken) == (Verdict.NOT_RUN, True)
    assert "the criteria are about ['error']" in found.why


def test_entries_go_stale(monkeypatch: pytest.MonkeyPatch, counted: Counted) -> None:
    found = entry(quick=False)
    assert found.stale == ""
    assert entry(quick=True).stale == "it is of a quick run"
    assert replace(found, source="other").stale == "the claim's program has changed since"
    assert replace(found, models="other").stale == "the trained models have changed since"
    monkeypatch.setitem(criteria_module._file(), ID, {"error": {"each": "<1e-9"}, "seeds": 3})
    assert found.stale == "the criteria have changed since"
    assert replace(found, id="gone").stale == "there is no such claim any more"


MADE_UP = """
WIDTH, NOISE = 3, [1]

class Part:
    def size(self):
        return WIDTH

def helper(trial):
    return Part().size() + NOISE[0]

def other(trial):
    return 1

def measure(trial):
    return (lambda: helper(trial))()
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("return (lambda: helper(trial))()", "return (lambda: 2 * helper(trial))()", False),
        ("return Part().size() + NOISE[0]", "return Part().size()", False),
        ("return WIDTH", "return WIDTH + 1", False),
        ("WIDTH, NOISE = 3", "WIDTH, NOISE = 4", False),
        ("NOISE = 3, [1]", "NOISE = 3, [2]", False),
        ("return 1", "return 2", True),  # nobody asks for it
    ],
)
def test_a_program_is_all_that_it_is_made_of(old: str, new: str, same: bool, tmp_path: Path) -> None:
    def hashed(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        spec = spec_from_file_location("inweights.claims.made_up", tmp_path / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[spec.name] = module
        linecache.checkcache()
        try:
            return program(module.measure)
        finally:
            del sys.modules[spec.name]

    assert old in MADE_UP
    assert (hashed("one", MADE_UP) == hashed("two", MADE_UP.replace(old, new) if old else MADE_UP)) is same


def test_the_hash_of_models_is_that_of_those_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "zoo").mkdir()
    for name in ("depth-8", "depth-8@1", "depth-80", "lstm-5"):
        (tmp_path / "zoo" / f"{name}.safetensors").write_text(name)
    monkeypatch.setattr(_code, "files", lambda name: tmp_path)
    first = _code.models(("depth-8",))
    (tmp_path / "zoo" / "lstm-5.safetensors").write_text("other")
    (tmp_path / "zoo" / "depth-80.safetensors").write_text("other")
    assert _code.models(("depth-8",)) == first
    (tmp_path / "zoo" / "depth-8@1.safetensors").write_text("other")
    assert _code.models(("depth-8",)) != first


def test_a_quick_run_is_not_recorded(counted: Counted, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text(entry().line() + "\n")
    with pytest.raises(InputError, match="test-claim: it is of a quick run") as error:
        record(tmp_path, tmp_path)
    assert "dherin-theorem was not run." in str(error.value)
    assert not (tmp_path / "claims.md").exists()


def test_the_page_shows_every_claim(counted: Counted) -> None:
    counted.found = Found({"error": ([1e-12], [0.5])}, told={"paper": 0.25})
    text = page({ID: entry()})
    assert "1 `PASS`; 1 claims." in text
    assert "| [test-claim](#test-claim) | `PASS` | error 1e-12 | each < 1e-10, control > 0.01 | 0.5 |" in text
    assert "Beside it: paper 0.25." in text
    assert "![test-claim](claims/test-claim.png)" in text


def test_a_claim_that_repeats_another_is_shown_but_not_counted(
    monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    again = replace(CLAIMS[ID], id="test-again", repeats=ID)
    monkeypatch.setitem(CLAIMS, "test-again", again)
    text = page({ID: entry(), "test-again": replace(entry(), id="test-again")})
    assert "1 `PASS`; 1 claims. 1 more say what another one says and are not counted." in text
    assert "| [test-again](#test-again) (repeats another) | `PASS` |" in text
    assert "Says what [test-claim](#test-claim) says; not counted." in text


def test_what_is_repeated_exists_and_counts() -> None:
    known = load_all()
    assert {c.id: c.repeats for c in known.values() if c.repeats and known[c.repeats].repeats} == {}


def test_a_claim_that_breaks_says_where(counted: Counted) -> None:
    counted.found = ZeroDivisionError("oops")
    found = entry()
    assert (found.verdict, found.broken) == (Verdict.NOT_RUN, True)
    assert found.why.startswith("ZeroDivisionError: oops (")


def test_a_precondition_makes_it_inconclusive(monkeypatch: pytest.MonkeyPatch, counted: Counted) -> None:
    monkeypatch.setattr(Counted, "__call__", lambda self, trial: trial.require(False, "A(x) is 0"))
    found = entry()
    assert (found.verdict, found.why) == (Verdict.INCONCLUSIVE, "A(x) is 0")


def test_a_sabotaged_control_is_found_out(counted: Counted) -> None:
    counted.found = Found({"error": (1e-12, 1e-12)})
    found = entry()
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.loose


def test_entries_survive_their_file(counted: Counted) -> None:
    counted.found = Found({"error": ([1e-12, 2e-12], [0.5, 0.6])}, Plot("t", "x", "y", [1, 2], {"a": [3.0, 4.0]}, "y"))
    found = entry()
    assert Entry.of(found.line()) == found
    assert found.plots[0]["lines"] == {"a": [3.0, 4.0]}
    assert found.seen == {"error": ([1.5e-12] * 3, [0.55] * 3)}


def test_a_claim_says_all_that_it_must() -> None:
    with pytest.raises(ValueError, match="no measured, control, settings"):

        @claim("test-silent", DHERIN, "nowhere")
        def silent(trial: Trial) -> Found:
            """A sentence alone."""
            raise AssertionError
