"""The metadata of an entry: code, models, machines; and how it is written and read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights import InputError, models
from inweights.lab.training import made_with
from inweights.ledger import CLAIMS, Entry, Measurement, Plot, Registered, Trial, _code, _run, register, run_claims
from inweights.ledger import _criteria as criteria_module
from inweights.ledger._cache import key
from inweights.ledger._json import dumps, loads
from inweights.ledger._run import Job, do
from inweights.papers._papers import DHERIN
from inweights.report import _claims as report
from inweights.report._claims import page, record, without_since, write_page

ID = "test-claim"


def entry(quick: bool = True) -> Entry:
    (result,) = run_claims([CLAIMS[ID]], quick=quick)
    return result


def test_entries_go_stale(monkeypatch: pytest.MonkeyPatch, counted: Any) -> None:
    result = entry(quick=False)
    assert result.stale == ""
    assert entry(quick=True).stale == "it is of a quick run"
    assert replace(result, program="other").stale == "the claim's program has changed since"
    assert replace(result, models="other").stale == "the trained models have changed since"
    monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), ID, {"error": {"each": "<1e-9"}, "seeds": 3})
    assert result.stale == "the criteria have changed since"
    assert replace(result, id="gone").stale == "there is no such claim any more"


def test_a_page_is_made_of_a_record(counted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "recorded", dict)
    with pytest.raises(InputError, match="There is no record"):
        write_page(tmp_path)
    monkeypatch.setattr(report, "recorded", lambda: {ID: entry(quick=False)})
    write_page(tmp_path)
    assert "### test-claim" in (tmp_path / "claims.md").read_text()


def test_what_is_not_registered_is_not_recorded(counted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is refused until its claim is registered, and again after a change of its criterion."""
    now = entry(quick=False)
    (tmp_path / "results.jsonl").write_text(now.line() + "\n")
    monkeypatch.setattr(report, "load_all", lambda: {ID: CLAIMS[ID]})
    monkeypatch.setattr(report, "RECORDED", tmp_path / "recorded.jsonl")
    monkeypatch.setattr(report, "recorded", dict)
    with pytest.raises(InputError, match="test-claim is not as it was registered"):
        record(tmp_path, tmp_path)
    assert not (tmp_path / "recorded.jsonl").exists()
    register(tmp_path / "registration", [Registered(claim=ID, date="2026-11-18", kind="first")])
    record(tmp_path, tmp_path)
    assert (tmp_path / "recorded.jsonl").exists()
    criterion = {"error": {"each": "<1e-10", "control": ">1e-2", "range": ">-1"}, "seeds": 3}
    monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), ID, criterion)
    with pytest.raises(InputError, match=r"test-claim is not as it was registered \(criterion\)"):
        record(tmp_path, tmp_path)


def test_what_an_entry_was_made_with_is_that_of_its_trials(monkeypatch: pytest.MonkeyPatch, counted: Any) -> None:
    """Not those of the judging process, and those of each machine if there were several."""
    monkeypatch.setattr(_run, "made_with", lambda device: {"torch": "1", "machine": device})
    for trial in (Trial(0), Trial(2)):
        do(Job(ID, trial))
    monkeypatch.setattr(_run, "made_with", lambda device: {"torch": "2", "machine": device})
    assert entry().made_with == [{"torch": "1", "machine": "cpu"}, {"torch": "2", "machine": "cpu"}]
    assert counted.calls == 3


def test_versions_and_hardware_are_recorded() -> None:
    result = made_with("cpu")
    assert set(result) - {"commit"} == {"inweights", "torch", "transformers", "python", "machine"}
    assert f"{torch.get_num_threads()} thread" in result["machine"]
    assert all(result.values())


def test_code_below_that_changed_since_is_remarked_and_makes_nothing_stale(counted: Any) -> None:
    result = entry(quick=False)
    assert result.below == _code.below(CLAIMS[ID].measure)
    assert not result.changed
    other = replace(result, below="0")
    assert (other.changed, other.stale) == (True, "")
    real = replace(other, id="dherin-theorem")
    text = page({ID: result, real.id: real})
    assert "*Changed since:* code below the ledger (dherin-theorem), which need not change a number." in text
    assert f"*Changed since:* code below the ledger ({ID}), which need not change a number." in page({ID: other})
    assert "Changed since" not in without_since(page({ID: other}))
    assert without_since(page({ID: other})) == page({ID: result})


def test_other_models_are_other_trials(counted: Any) -> None:
    before = key(CLAIMS[ID], Trial(0))
    assert key(CLAIMS[ID], Trial(0)) == before
    CLAIMS[ID] = replace(CLAIMS[ID], tells=("linear-5",))
    assert key(CLAIMS[ID], Trial(0)) != before


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
    assert _code.models(("depth-8", "smollm2")) != _code.models(("depth-8",))
    fetched = _code.models(("smollm2",))
    monkeypatch.setattr(models, "SMOLLM2", replace(models.SMOLLM2, sha256="0" * 64))
    assert _code.models(("smollm2",)) != fetched


def test_models_that_are_only_reported_on_are_hashed_too(counted: Any) -> None:
    result = entry(quick=False)
    CLAIMS[ID] = replace(CLAIMS[ID], tells=("linear-5",))
    assert result.stale == "the trained models have changed since"


def test_entries_survive_their_file(counted: Any) -> None:
    counted.found = Measurement(
        {"error": ([1e-12, 2e-12], [0.5, 0.6])}, Plot("t", "x", "y", [1, 2], {"a": [3.0, 4.0]}, "y")
    )
    result = entry()
    assert Entry.of(result.line()) == result
    assert result.plots[0]["lines"] == {"a": [3.0, 4.0]}
    assert result.seen == {"error": ([1.5e-12] * 3, [0.55] * 3)}


def test_numbers_that_are_not_finite_survive_their_file_as_json(counted: Any) -> None:
    """Of trials and of entries; `NaN` and `Infinity` are no JSON."""
    counted.found = Measurement({"error": ([math.inf, 1e-12], [math.nan, 0.5])}, reported={"beside": -math.inf})
    result = entry()
    kept = entry()  # read from the cache
    assert counted.calls == 3

    def refuse(word: str) -> None:
        raise AssertionError(word)

    for one in (result, kept):
        json.loads(one.line(), parse_constant=refuse)
        again = Entry.of(one.line())
        assert again.quantities["error"].value.value == math.inf
        assert math.isnan(again.seen["error"][1][0])  # type: ignore[index]
        assert again.told[0]["beside"] == -math.inf
    body = json.loads(key(CLAIMS[ID], Trial(0)).read_text())["body"]
    json.loads(body, parse_constant=refuse)


@pytest.mark.parametrize("plain", [{"a": [1.5, "text", None, True, {"b": 2}]}, {}])
def test_other_values_are_as_they_were(plain: Any) -> None:
    assert loads(dumps(plain)) == plain
