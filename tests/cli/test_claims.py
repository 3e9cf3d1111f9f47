"""`inweights claims`: what it lists, what it runs, and how it ends."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inweights.claims import CLAIMS, load_all
from inweights.claims import _criteria as criteria_module
from inweights.cli import app


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))


def test_list_names_all_of_them() -> None:
    result = CliRunner().invoke(app, ["claims", "list", "--json"])
    assert result.exit_code == 0
    listed = json.loads(result.stdout)["claims"]
    assert [c["id"] for c in listed] == list(load_all())
    assert all(c["sentence"] and c["control"] and c["where"] for c in listed)
    plain = CliRunner().invoke(app, ["claims", "list"])
    assert all(id in plain.stdout for id in CLAIMS)


def test_what_repeats_another_claim_is_shown_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = sum(not c.repeats for c in load_all().values())
    monkeypatch.setitem(CLAIMS, "dherin-corollary", replace(CLAIMS["dherin-corollary"], repeats="dherin-theorem"))
    listed = CliRunner().invoke(app, ["claims", "list"]).stdout
    assert "(Says what dherin-theorem says; not counted.)" in " ".join(listed.split())
    assert f"{counts - 1} claims, and {len(CLAIMS) - counts + 1} that say what another one says." in listed
    run = ["claims", "run", "dherin-theorem", "dherin-corollary", "--quick"]
    assert "1 PASS, 1 that say what another one says" in CliRunner().invoke(app, run).stdout
    found = json.loads(CliRunner().invoke(app, [*run, "--json"]).stdout)
    assert (found["counts"], found["repeated"]) == ({"PASS": 1}, 1)
    assert [c["repeats"] for c in found["claims"]] == [None, "dherin-theorem"]


def test_the_readme_says_how_many_claims_count() -> None:
    (said,) = re.findall(r"the ledger: (\d+) claims", (Path(__file__).parents[2] / "README.md").read_text())
    assert int(said) == sum(not c.repeats for c in load_all().values())


def test_a_run_gives_verdicts_figures_and_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ["claims", "run", "dherin-theorem", "note-attention-demo", "--quick", "--json", "--out", str(out)]
    result = CliRunner().invoke(app, run)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {c["id"]: c["verdict"] for c in found["claims"]} == {"dherin-theorem": "PASS", "note-attention-demo": "FAIL"}
    assert found["counts"] == {"PASS": 1, "FAIL": 1}
    error = found["claims"][0]["quantities"]["error"]
    assert error["measured"] < 1e-10 < 1e-2 < error["control"]
    names = {"dherin-theorem", "note-attention-demo"}
    assert {p.name for p in out.iterdir()} == {f"{n}.{e}" for n in names for e in ("png", "csv")} | {"results.jsonl"}
    assert len((out / "results.jsonl").read_text().splitlines()) == 2
    # Another run into the same folder adds to it.
    CliRunner().invoke(app, ["claims", "run", "dherin-corollary", "dherin-theorem", "--quick", "--out", str(out)])
    lines = [json.loads(line)["id"] for line in (out / "results.jsonl").read_text().splitlines()]
    assert lines == ["dherin-theorem", "note-attention-demo", "dherin-corollary"]


def test_a_control_that_does_not_fail_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = {"error": {"each": "<1e-10", "control": ">1e9"}}
    monkeypatch.setitem(criteria_module._file(), "dherin-theorem", impossible)
    result = CliRunner().invoke(app, ["claims", "run", "dherin-theorem", "--quick"])
    assert result.exit_code == 1
    assert "INCONCLUSIVE" in result.stdout
    assert "the control did not fail" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dherin-theorm"], "There is no claim 'dherin-theorm'; did you mean dherin-theorem"),
        ([], "Name the claims to run, or give --all"),
        (["dherin-theorem", "--all"], "Name the claims to run, or give --all"),
    ],
)
def test_bad_input_is_a_sentence(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["claims", "run", *arguments])
    assert said in str(result.exception)
