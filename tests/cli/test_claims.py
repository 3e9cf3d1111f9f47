"""`inweights claims`: its lists, its runs, and its exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inweights import InputError
from inweights.cli import app
from inweights.cli._live import live
from inweights.lab import zoo
from inweights.lab.training import Recipe
from inweights.ledger import CLAIMS, Entry, Measurement, NotHereError, Trial, Verdict, _trial, criteria
from inweights.ledger import _criteria as criteria_module
from inweights.ledger import _remarks as remarks_module
from inweights.ledger._cache import Kept
from inweights.ledger._code import judging, models, program
from inweights.ledger._intervals import Interval
from inweights.ledger._judge import Judged
from inweights.ledger._run import Job
from inweights.papers import _recorded as ledger_module
from inweights.papers import load_all
from inweights.papers._papers import DHERIN


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))


def test_list_names_all_of_them() -> None:
    result = CliRunner().invoke(app, ["claims", "list", "--json"])
    assert result.exit_code == 0
    listed = json.loads(result.stdout)["claims"]
    assert [c["id"] for c in listed] == list(load_all())
    stated = ("sentence", "control", "rival", "precondition", "where", "stratum", "paper_value")
    assert all(c[part] for c in listed for part in stated)
    results = json.loads(result.stdout)["counts"]
    assert sum(n for each in results.values() for n in each.values()) == sum(
        not c.uncounted for c in load_all().values()
    )
    plain = CliRunner().invoke(app, ["claims", "list"])
    assert all(id in plain.stdout for id in CLAIMS)


def test_what_repeats_another_claim_is_shown_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = sum(bool(c.uncounted) for c in load_all().values())
    monkeypatch.setitem(CLAIMS, "dherin-corollary", replace(CLAIMS["dherin-corollary"], repeats="dherin-theorem"))
    listed = CliRunner().invoke(app, ["claims", "list"]).stdout
    assert "(Goes with dherin-theorem; not counted.)" in " ".join(listed.split())
    assert f"{counts + 1} more are not counted." in listed
    run = ["claims", "run", "dherin-theorem", "dherin-corollary", "--quick"]
    assert "identity        1 PASS\n1 more is not counted." in CliRunner().invoke(app, run).stdout
    result = json.loads(CliRunner().invoke(app, [*run, "--json"]).stdout)
    assert (result["counts"], result["uncounted"]) == ({"identity": {"PASS": 1}}, 1)
    assert [c["repeats"] for c in result["claims"]] == [None, "dherin-theorem"]


def test_the_readme_states_the_number_of_claims() -> None:
    (output,) = re.findall(r"the ledger: (\d+) claims", (Path(__file__).parents[2] / "README.md").read_text())
    assert int(output) == sum(not c.uncounted for c in load_all().values())


def test_a_run_gives_verdicts_figures_and_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ["claims", "run", "dherin-theorem", "note-plus-is-newton", "--quick", "--json", "--out", str(out)]
    result = CliRunner().invoke(app, run)
    assert result.exit_code == 0, result.output
    results = json.loads(result.stdout)
    assert {c["id"]: c["verdict"] for c in results["claims"]} == {
        "dherin-theorem": "PASS",
        "note-plus-is-newton": "FAIL",
    }
    assert results["counts"] == {"identity": {"PASS": 1}, "note": {"FAIL": 1}}
    error = results["claims"][0]["quantities"]["error"]
    assert error["measured"] < 1e-10 < 1e-2 < error["control"]
    assert results["claims"][0]["broken"] is False
    assert "torch" in results["claims"][0]["made_with"][0]
    names = {"dherin-theorem", "note-plus-is-newton"}
    assert {p.name for p in out.iterdir()} == {f"{n}.{e}" for n in names for e in ("png", "csv")} | {"results.jsonl"}
    assert len((out / "results.jsonl").read_text().splitlines()) == 2
    # Another run into the same folder adds to it.
    CliRunner().invoke(app, ["claims", "run", "dherin-corollary", "dherin-theorem", "--quick", "--out", str(out)])
    lines = [json.loads(line)["id"] for line in (out / "results.jsonl").read_text().splitlines()]
    assert lines == ["dherin-theorem", "note-plus-is-newton", "dherin-corollary"]


def test_show_prints_all_about_a_claim() -> None:
    output = " ".join(CliRunner().invoke(app, ["claims", "show", "akyurek-phases"]).stdout.split())
    claim = load_all()["akyurek-phases"]
    asked = {name: str(c) for name, c in criteria()["akyurek-phases"].quantities.items()}
    lines = [f"criterion {name}: {wanted}" for name, wanted in asked.items()]
    for part in (claim.sentence, claim.where, claim.measured, claim.control, claim.settings, *lines):
        assert " ".join(part.split()) in output
    assert "Akyürek et al. 2023" in output
    result = json.loads(CliRunner().invoke(app, ["claims", "show", "akyurek-phases", "--json"]).stdout)
    assert result["criteria"] == asked
    assert result["stratum"] == "trained-small"
    assert result["scale"]["width"] == {"ours": 40, "paper": 512, "ratio": 40 / 512}
    assert result["deviations"]
    assert result["command"] == "inweights claims run akyurek-phases"
    assert result["address"] == "https://arxiv.org/abs/2211.15661"
    unknown = CliRunner().invoke(app, ["claims", "show", "akyurek-phase"])
    assert isinstance(unknown.exception, InputError)
    assert "did you mean akyurek-phases" in str(unknown.exception)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A record of one claim that was made with other code below the ledger, and a remark on it."""
    claim = load_all()["dherin-theorem"]
    asked = {name: str(c) for name, c in criteria()[claim.id].quantities.items()}
    entry = Entry(
        claim.id, Verdict.PASS, criteria=asked, quick=False, program=program(claim.measure),
        models=models(claim.models), below="0", judge=judging(), trials=5, seen={"error": ([1e-15], [0.5])},
        quantities={"error": Judged(Interval(1e-15, 1e-15, 1e-15), Interval(0.5, 0.5, 0.5), Verdict.PASS)},
        made_with=[{"torch": "2.9", "machine": "abacus"}],
    )  # fmt: skip
    (tmp_path / "recorded.jsonl").write_text(entry.line() + "\n")
    monkeypatch.setattr(ledger_module, "RECORDED", tmp_path / "recorded.jsonl")
    monkeypatch.setitem(remarks_module.remarks_file(DHERIN.folder), claim.id, {"why": "Because it is a theorem."})
    return entry


def test_changes_since_the_record_are_shown(record: Entry) -> None:
    """In the list and for the claim itself, as text and as JSON."""
    listed = CliRunner().invoke(app, ["claims", "list", "dherin"]).stdout
    assert "dherin-theorem PASS * " in " ".join(listed.split())
    assert "* measured with an earlier version of the code" in listed
    shown = " ".join(CliRunner().invoke(app, ["claims", "show", record.id]).stdout.split())
    for output in (
        "PASS *",
        "earlier version",
        "made with torch 2.9; machine abacus",
        "remark Because it is a theorem.",
    ):
        assert output in shown
    result = json.loads(CliRunner().invoke(app, ["claims", "list", record.id, "--json"]).stdout)["claims"][0]
    assert (result["verdict"], result["stale"], result["changed_since"]) == ("PASS", None, True)
    assert result["remark"] == "Because it is a theorem."
    assert result["quantities"]["error"]["interval"] == [1e-15, 1e-15]
    assert result["quantities"]["error"]["control_trials"] == [0.5]
    last = json.loads(CliRunner().invoke(app, ["claims", "show", record.id, "--json"]).stdout)["last"]
    assert (last["changed_since"], last["made_with"]) == (True, record.made_with)


def test_missing_models_are_reported_and_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that needs models missing in the zoo is not run, quick or not, without `--train`."""

    def measure(trial: Trial) -> Measurement:
        trial.trained("linear-5")
        raise AssertionError

    monkeypatch.setattr(zoo, "seeded", lambda name, seed: None)
    monkeypatch.setattr(zoo, "seeds", lambda name: [])
    _trial._in_the_zoo.cache_clear()
    monkeypatch.setitem(
        CLAIMS, "dherin-theorem", replace(CLAIMS["dherin-theorem"], measure=measure, needs=("linear-5",))
    )
    listed = CliRunner().invoke(app, ["claims", "list", "dherin-theorem"]).stdout
    assert "1 s / 5 s + training" in listed
    assert "`claims run --train` trains them first" in listed
    assert "linear-5, 5 of its seeds" in CliRunner().invoke(app, ["claims", "show", "dherin-theorem"]).stdout
    results = json.loads(CliRunner().invoke(app, ["claims", "list", "dherin-theorem", "--json"]).stdout)["claims"][0]
    assert results["to_train"] == {"linear-5": 5}
    for quick in ([], ["--quick"]):
        result = CliRunner().invoke(app, ["claims", "run", "dherin-theorem", "--json", *quick])
        assert result.exit_code == 0
        (one,) = json.loads(result.stdout)["claims"]
        assert one["verdict"] == "NOT-RUN"
        assert one["why"].startswith("`linear-5` with seed 0 is not in the zoo: `claims run --train` trains it")
        assert "`lab train linear-5 --set seed=0`" in one["why"]
    began: list[int] = []

    def training(recipe: Recipe, folder: Path, **_: object) -> None:
        began.append(recipe.seed)
        raise NotHereError("enough")

    monkeypatch.setattr(_trial, "train", training)
    CliRunner().invoke(app, ["claims", "run", "dherin-theorem", "--train", "--json"])
    assert began == [0, 1, 2, 3, 4]
    _trial._in_the_zoo.cache_clear()


def test_a_paper_stands_for_its_claims() -> None:
    listed = json.loads(CliRunner().invoke(app, ["claims", "list", "fu", "note-index", "--json"]).stdout)["claims"]
    assert [c["id"] for c in listed] == [*(i for i in load_all() if i.startswith("fu-")), "note-index"]


def test_what_cannot_be_run_does_not_take_the_place_of_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["claims", "run", "dherin-corollary", "--quick", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, run).exit_code == 0
    before = (tmp_path / "out" / "results.jsonl").read_text()

    def broken(trial: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "another"))
    monkeypatch.setitem(CLAIMS, "dherin-corollary", replace(CLAIMS["dherin-corollary"], measure=broken))
    assert CliRunner().invoke(app, run).exit_code == 1
    assert (tmp_path / "out" / "results.jsonl").read_text() == before

    reported = json.loads(CliRunner().invoke(app, [*run, "--json"]).stdout)["claims"][0]
    assert reported["broken"] is True


@pytest.mark.parametrize("damage", [b'{"id": "x"', b"[" * 200_000, b"{}", b"[]", b"\xff", b""])
def test_damaged_results_are_reported_before_any_work(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("dherin-theorem", Verdict.PASS)
    (tmp_path / "results.jsonl").write_bytes(entry.line().encode() + b"\n" + damage + b"\n")

    def never(trial: object) -> None:
        raise AssertionError

    monkeypatch.setitem(CLAIMS, "dherin-scalar", replace(load_all()["dherin-scalar"], measure=never))
    result = CliRunner().invoke(app, ["claims", "run", "dherin-scalar", "--quick", "--out", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(f"Line 2 of {str(tmp_path / 'results.jsonl')!r} is damaged")
    assert "delete that line or the file" in str(result.exception)


def test_on_a_terminal_a_run_is_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each claim, never wrapped; brackets are not read as markup."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "70")):
        monkeypatch.setenv(name, value)
    ids = ["dherin-theorem", "dherin-corollary", "dherin-scalar"]
    chosen = [load_all()[id] for id in ids]
    with live(chosen, True, silent=False) as (after, show):
        after(Job(ids[0], Trial(0)), Kept.of(None, "broken", "", 0.0))
        show(Entry(ids[0], Verdict.NOT_RUN, why="[/tmp/x]\n" + "[not finite] " * 20))
        show(Entry(ids[1], Verdict.PASS, why="[red]"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err).replace("\r", "\n").splitlines()
    assert shown[0].split() == ["verdict", "claim", "measured"]
    assert all(len(line) <= 70 for line in shown)
    (first,) = (line for line in shown if line.startswith("NOT-RUN"))
    assert "([/tmp/x] [not finite]" in first
    assert first.rstrip().endswith("…")
    assert sum("[not finite]" in line for line in shown) == 1
    (second,) = (line for line in shown if line.startswith("PASS"))
    assert second.index(ids[1]) == first.index(ids[0]) == shown[0].index("claim")
    assert "([red])" in second
    assert any("3 claims waiting" in line for line in shown)
    assert any("2 claims waiting; under way: dherin-theorem" in line for line in shown)


def test_the_help_states_when_a_run_exits_with_1() -> None:
    output = " ".join(re.sub(r"[^\w ]", " ", CliRunner().invoke(app, ["claims", "run", "--help"]).stdout).split())
    assert "the verdict of an exact claim differs from the recorded one" in output


def test_a_control_that_does_not_fail_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = {"error": {"each": "<1e-10", "control": ">1e9"}}
    monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), "dherin-theorem", impossible)
    result = CliRunner().invoke(app, ["claims", "run", "dherin-theorem", "--quick"])
    assert result.exit_code == 1
    assert "INCONCLUSIVE" in result.stdout
    assert "the control did not fail" in result.stdout


def test_a_rival_that_holds_too_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a finding about the interpretation, not a fault of the control."""
    claim = load_all()["dherin-theorem"]

    def measure(trial: Trial) -> Measurement:
        results = claim.measure(trial)
        return replace(results, rivals={"error": 0.0})

    rival = {"error": {"each": "<1e-10", "control": ">1e-2", "rival": True}}
    monkeypatch.setitem(criteria_module.criteria_file(DHERIN.folder), claim.id, rival)
    monkeypatch.setitem(CLAIMS, claim.id, replace(claim, measure=measure, exact=False))
    result = CliRunner().invoke(app, ["claims", "run", claim.id, "--quick", "--json"])
    assert result.exit_code == 0
    (results,) = json.loads(result.stdout)["claims"]
    assert results["verdict"] == "HOLDS-NOT-DIAGNOSTIC"
    assert results["quantities"]["error"]["rival"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dherin-theorm"], "There is no claim 'dherin-theorm'; did you mean dherin-theorem"),
        ([], "Name the claims to run, or give --all"),
        (["dherin-theorem", "--all"], "Name the claims to run, or give --all"),
        (["dherin-theorem", "--device", "gpu"], "`device` is 'gpu', but must be auto, cpu, cuda"),
    ],
)
def test_bad_input_is_a_sentence(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["claims", "run", *arguments])
    assert said in str(result.exception)
