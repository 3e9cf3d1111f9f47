"""Registration: a change of what a claim is judged by is detected, whichever part it is in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inweights import InputError
from inweights.ledger import CLAIMS, Registered, register, registered, registration, unregistered
from inweights.ledger import _criteria as criteria_module
from inweights.papers._papers import DHERIN

ID = "test-claim"
FIRST = Registered(claim=ID, date="2026-11-18", kind="first")
CHANGE = Registered(
    claim=ID, date="2026-11-18", kind="change", was="a", now="b", reason="because", seen="all of it", seeds="5 to 9"
)  # fmt: skip


def test_a_change_of_any_part_is_detected(counted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ID in unregistered(tmp_path)
    register(tmp_path, [FIRST])
    assert ID not in unregistered(tmp_path)
    whole, claim = registration(CLAIMS[ID]), CLAIMS[ID]
    for part, new in (
        ("control", replace(claim, control="Another control.")),
        ("control", replace(claim, rival="A rival.")),
        ("settings", replace(claim, settings="Other settings.")),
        ("settings", replace(claim, sentence="Another sentence.")),
        ("recipes", replace(claim, needs=("linear-5",))),
        ("program", replace(claim, measure=lambda trial: counted(trial))),
    ):
        CLAIMS[ID] = new
        assert unregistered(tmp_path)[ID] == [part]
        assert registration(new) != whole
    CLAIMS[ID] = claim
    for changed in ({"each": "<1e-9", "control": ">1e-2"}, {"each": "<1e-10", "control": ">1e-3"}):
        monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), ID, {"error": changed, "seeds": 3})
        assert unregistered(tmp_path)[ID] == ["criterion"]
    register(tmp_path, [CHANGE])
    assert ID not in unregistered(tmp_path)
    assert [e.kind for e in registered(tmp_path)] == ["first", "change"]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (CHANGE.model_copy(update={"seen": ""}), "test-claim: a change has to state `seen`."),
        (CHANGE.model_copy(update={"seeds": ""}), "test-claim: a change has to state `seeds`."),
        (FIRST, "test-claim is registered already."),
        (FIRST.model_copy(update={"kind": "wording"}), "test-claim: a wording has to state `reason`."),
        (
            FIRST.model_copy(update={"kind": "refactoring", "reason": "Moved."}),
            "test-claim: a refactoring has to state `proof`.",
        ),
        (FIRST.model_copy(update={"claim": "gone"}), "There is no claim 'gone'."),
    ],
)
def test_an_entry_states_what_its_kind_requires(entry: Registered, why: str, counted: Any, tmp_path: Path) -> None:
    register(tmp_path, [FIRST])
    with pytest.raises(InputError) as error:
        register(tmp_path, [entry])
    assert str(error.value) == why
    assert len(registered(tmp_path)) == 1


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "registered.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"registered\.jsonl' is damaged, restore it from the history"):
        registered(tmp_path)
