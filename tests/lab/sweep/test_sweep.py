"""Sweeps on local processes: their results, their files, and failures of processes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from inweights import InputError
from inweights.cli.lab_sweep import sweep_command
from inweights.engines import _local
from inweights.lab._curves import curves
from inweights.lab.sweep import Cell, Result, _store, sweep, write_table
from inweights.lab.training import load_trained

PROMPTS = 32


def plain(results: list[Result]) -> list[Result]:
    """Without the time that they took."""
    return [replace(r, seconds=0.0) for r in results]


@pytest.fixture(scope="module")
def swept(four: list[Cell], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Result]]:
    out = tmp_path_factory.mktemp("swept")
    return out, sweep(four, out, jobs=2, prompts=PROMPTS)


def test_a_sweep_trains_and_measures_every_cell(four: list[Cell], swept: tuple[Path, list[Result]]) -> None:
    out, results = swept
    assert [r.status for r in results] == ["done"] * 4
    assert len({r.loss for r in results}) == 4
    for cell, result in zip(four, results, strict=True):
        model, recipe, about = load_trained(out / "cells" / cell.key / "model.safetensors")
        assert recipe == cell.recipe
        assert about["loss"] == result.loss
        again = curves(recipe.make_task(), recipe.points, {"model": model}, prompts=PROMPTS)["model"].mean(0)
        assert again.tolist() == pytest.approx(result.curve, rel=1e-6)
        assert len(result.curve) == recipe.points


def test_the_table_has_a_row_for_every_cell(four: list[Cell], swept: tuple[Path, list[Result]]) -> None:
    out, results = swept
    failed = Result(message="It did not work.")
    path = write_table(out, four, [*results[:3], failed])
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(r["model.layers"], r["seed"]) for r in rows] == [("1", "0"), ("1", "1"), ("2", "0"), ("2", "1")]
    assert float(rows[1]["loss"]) == results[1].loss
    assert float(rows[2]["error_5"]) == results[2].curve[5]
    assert (rows[3]["status"], rows[3]["loss"], rows[3]["message"]) == ("failed", "", "It did not work.")
    assert json.loads((out / "results.json").read_text())["cells"][1]["curve"] == list(results[1].curve)


def test_done_cells_are_kept_and_damaged_ones_are_not_trusted(
    four: list[Cell], swept: tuple[Path, list[Result]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, results = swept
    paths = [out / "cells" / cell.key / "result.json" for cell in four]
    before = [p.stat().st_mtime_ns for p in paths]
    whole = paths[0].read_text()
    damages = [
        whole[:100],
        "",
        "[]",
        whole.replace(str(results[0].loss), "0.5"),  # a file that reads well, and lies
        json.dumps(json.loads(whole) | {"sha256": "0"}),
    ]
    assert _store.read(out, four[0], PROMPTS) == results[0]
    for damaged in damages:
        paths[0].write_text(damaged)
        assert _store.read(out, four[0], PROMPTS) is None
    paths[0].unlink()
    paths[1].rename(paths[0])  # of another recipe
    assert _store.read(out, four[0], PROMPTS) is None
    paths[0].rename(paths[1])
    paths[0].write_text(damages[3])
    assert plain(sweep(four, out, jobs=1, prompts=PROMPTS)) == plain(results)
    assert [p.stat().st_mtime_ns == t for p, t in zip(paths, before, strict=True)] == [False, True, True, True]

    def no_more(*_: object) -> None:
        raise AssertionError("nothing is left to do")

    monkeypatch.setattr(_local, "Worker", no_more)
    seen: list[int] = []
    assert plain(sweep(four, out, prompts=PROMPTS, after=seen.append)) == plain(results)
    assert seen == [4]
    assert _store.read(out, four[0], PROMPTS + 1) is None  # measured on other prompts: to be measured again


COMMAND = """
import typer
from inweights.cli.lab_sweep import sweep_command
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(sweep_command)
app()
"""


def started(*arguments: str) -> subprocess.Popen[bytes]:
    """The command in a separate process group."""
    return subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], start_new_session=True)


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        assert process is None or process.poll() is None
        time.sleep(0.01)


def test_a_killed_sweep_goes_on(
    four: list[Cell], arguments: list[str], swept: tuple[Path, list[Result]], tmp_path: Path
) -> None:
    child = started(*arguments, "--out", str(tmp_path), "--jobs", "1", "--prompts", str(PROMPTS))
    until(lambda: any(tmp_path.glob("cells/*/result.json")), child)
    os.killpg(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    done = {p: p.stat().st_mtime_ns for p in tmp_path.glob("cells/*/result.json")}
    assert 0 < len(done) < 4
    assert not (tmp_path / "results.csv").exists()
    seen: list[int] = []
    again = sweep(four, tmp_path, jobs=1, prompts=PROMPTS, after=seen.append)
    assert seen[0] == len(done)
    assert plain(again) == plain(swept[1])
    assert {p: p.stat().st_mtime_ns for p in done} == done


def test_workers_do_not_outlive_the_sweep(arguments: list[str], tmp_path: Path) -> None:
    child = started(*arguments, "--set", "steps=5000", "--set", "note=long", "--out", str(tmp_path), "--jobs", "1")
    until(lambda: any(tmp_path.glob("cells/*/metrics.jsonl")), child)
    workers = [int(pid) for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()]
    assert workers
    child.kill()  # it alone, with no chance to say good-bye
    child.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_workers_that_always_die_are_one_sentence(
    four: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local, "serve", os._exit)  # it cannot be called so: the process ends with 1
    (result,) = sweep(four[:1], tmp_path, jobs=1, prompts=PROMPTS)
    assert result.status == "failed"
    assert result.message.startswith("Its process died 4 times, last with exit code 1: ")
    assert not any(tmp_path.glob("cells/*/result.json"))


def ask(*arguments: str) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()
    app.command()(sweep_command)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.exception


def test_a_failed_cell_is_reported_and_stops_no_other(tmp_path: Path, arguments: list[str]) -> None:
    small = arguments[: arguments.index("--grid")]
    out = ("--out", str(tmp_path), "--jobs", "1", "--prompts", str(PROMPTS))
    code, text, _ = ask(*small, "--grid", "rate=1e6,1e-3", *out, "--json")
    assert code == 1
    result = json.loads(text)
    assert result.keys() == {"cells", "engine", "table"}
    wild, tame = result["cells"]
    assert (wild["settings"], wild["status"], wild["loss"]) == ({"rate": 1e6}, "failed", None)
    assert "train with a `rate` below 1e+06" in wild["message"]
    assert (tame["status"], len(tame["curve"]), tame["message"]) == ("done", 6, "")
    assert Path(result["table"]).is_file()
    code, text, _ = ask(*small, "--grid", "rate=1e-3", *out)
    assert code == 0
    assert "done" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--engine", "rai"), "There is no engine 'rai'; did you mean ray"),
        (("--address", "auto"), "--address is 'auto', but only --engine ray connects to one"),
        (("--grid", "nonsense=1"), "There is no key 'nonsense'"),
        (("--set", "steps=0"), "--set: `steps` is 0"),
    ],
)
def test_bad_input_is_one_sentence(more: tuple[str, ...], said: str, tmp_path: Path, arguments: list[str]) -> None:
    _, _, error = ask(*arguments, "--out", str(tmp_path), *more)
    assert isinstance(error, InputError)
    assert said in str(error)
    assert "\n" not in str(error)


def test_the_command_gives_what_the_function_gives(
    four: list[Cell], swept: tuple[Path, list[Result]], arguments: list[str]
) -> None:
    """On cells that are done already: this reads them."""
    out, results = swept
    code, text, _ = ask(*arguments, "--out", str(out), "--prompts", str(PROMPTS), "--json")
    assert code == 0
    result = json.loads(text)
    assert result["engine"] == "local"
    assert [c["settings"] for c in result["cells"]] == [c.settings for c in four]
    assert [(c["loss"], c["curve"]) for c in result["cells"]] == [(r.loss, list(r.curve)) for r in results]
