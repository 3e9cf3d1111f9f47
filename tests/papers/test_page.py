"""The recorded results and `docs/claims.md` are those of the claims as they are today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from inweights.ledger import Entry, Verdict, criteria, remarks
from inweights.ledger._code import below, judging, models, program
from inweights.ledger._remarks import remarks_file
from inweights.papers import RECORDED, load_all, recorded
from inweights.papers._papers import FU
from inweights.report._claims import page, without_since

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "run `make ledger`."


def faults(entries: Mapping[str, Entry], docs: Path) -> list[str]:
    """What is missing in a record or has changed since, each as a sentence."""
    result = [f"{id} is not in the record: {AGAIN}" for id in load_all() if id not in entries]
    result += [f"{e.id} is recorded, but {e.stale}: {AGAIN}" for e in entries.values() if e.stale]
    if result:  # a page of other claims cannot be made
        return result
    text = docs / "claims.md"
    if not text.is_file():
        return [f"There is no docs/claims.md: {AGAIN}"]
    if without_since(text.read_text(encoding="utf-8")) != without_since(page(entries)):
        result.append("docs/claims.md is not the page of the record: run `make page`.")
    odd = [e for e in entries.values() if e.verdict not in (Verdict.PASS, Verdict.NOT_RUN)]
    result += [f"{e.id} is {e.verdict}, and remarks.toml does not say why." for e in odd if e.id not in remarks()]
    figures = [docs / "claims" / f"{e.id}.{kind}" for e in entries.values() if e.seen for kind in ("png", "csv")]
    return result + [f"There is no docs/claims/{f.name}: {AGAIN}" for f in figures if not f.is_file()]


def test_the_record_is_of_today() -> None:
    assert RECORDED.is_file(), f"There is no record of a full run: {AGAIN}"
    assert faults(recorded(), DOCS) == []


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Entry]:
    """A record in which nothing is missing, with its page in `tmp_path`."""
    claims = load_all()
    needed, entries = criteria(), {}
    for id, claim in claims.items():
        asked = {name: str(c) for name, c in needed[id].quantities.items()}
        entries[id] = Entry(
            id, Verdict.NOT_RUN, criteria=asked, quick=False, program=program(claim.measure),
            models=models(claim.models), below=below(claim.measure), judge=judging(), trials=needed[id].seeds,
        )  # fmt: skip
    (tmp_path / "claims.md").write_text(page(entries), encoding="utf-8")
    return entries


def test_a_whole_record_has_no_fault(whole: dict[str, Entry], tmp_path: Path) -> None:
    assert faults(whole, tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"program": "0"}, "the claim's program has changed since"),
        ({"criteria": {}}, "the criteria have changed since"),
        ({"judge": "0"}, "the judge has changed since"),
        ({"verdict": Verdict.PASS, "trials": 1}, "the criteria have changed since"),
        ({"quick": True}, "it is of a quick run"),
        ({"id": "gone"}, "there is no such claim any more"),
    ],
)
def test_an_entry_of_other_times_is_named(
    changed: dict[str, object], why: str, whole: dict[str, Entry], tmp_path: Path
) -> None:
    old = replace(whole["garg-linear"], **changed)  # type: ignore[arg-type]
    assert faults(whole | {old.id: old}, tmp_path) == [f"{old.id} is recorded, but {why}: {AGAIN}"]


def test_other_models_are_named(whole: dict[str, Entry], tmp_path: Path) -> None:
    old = replace(whole["garg-linear"], models="0")
    why = "garg-linear is recorded, but the trained models have changed since"
    assert faults(whole | {old.id: old}, tmp_path) == [f"{why}: {AGAIN}"]


def test_code_below_that_changed_since_is_no_fault(whole: dict[str, Entry], tmp_path: Path) -> None:
    """It is remarked on a page that is made anew, and the one that was there before still stands."""
    old = {id: replace(e, below="0") for id, e in whole.items()}
    assert faults(old, tmp_path) == []
    (tmp_path / "claims.md").write_text(page(old), encoding="utf-8")
    output = f"*Changed since:* code below the ledger ({len(old)} of {len(old)} claims), which"
    assert output in (tmp_path / "claims.md").read_text()
    assert faults(old, tmp_path) == []


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.HOLDS_NOT_DIAGNOSTIC, Verdict.ERRATUM])
def test_what_did_not_pass_needs_a_remark(
    verdict: Verdict, whole: dict[str, Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(remarks_file(FU.folder), "fu-construction", raising=False)
    failed = whole | {"fu-construction": replace(whole["fu-construction"], verdict=verdict)}
    (tmp_path / "claims.md").write_text(page(failed), encoding="utf-8")
    assert faults(failed, tmp_path) == [f"fu-construction is {verdict}, and remarks.toml does not say why."]
    monkeypatch.setitem(remarks_file(FU.folder), "fu-construction", {"why": "Newton was tired."})
    assert faults(failed, tmp_path) == ["docs/claims.md is not the page of the record: run `make page`."]
    (tmp_path / "claims.md").write_text(page(failed), encoding="utf-8")
    assert faults(failed, tmp_path) == []


def test_what_is_missing_is_named(whole: dict[str, Entry], tmp_path: Path) -> None:
    without = {id: e for id, e in whole.items() if id != "fu-construction"}
    assert faults(without, tmp_path) == [f"fu-construction is not in the record: {AGAIN}"]
    drawn = whole | {"fu-construction": replace(whole["fu-construction"], seen={"error": ([1e-12], [0.1])})}
    (tmp_path / "claims.md").write_text(page(drawn), encoding="utf-8")
    assert faults(drawn, tmp_path) == [f"There is no docs/claims/fu-construction.{k}: {AGAIN}" for k in ("png", "csv")]
    (tmp_path / "claims.md").write_text(page(whole) + "By hand.\n", encoding="utf-8")
    assert faults(whole, tmp_path) == ["docs/claims.md is not the page of the record: run `make page`."]
    (tmp_path / "claims.md").unlink()
    assert faults(whole, tmp_path) == [f"There is no docs/claims.md: {AGAIN}"]
