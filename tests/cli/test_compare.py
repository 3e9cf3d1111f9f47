"""`inweights compare`: its keys, its files, and what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from worded import ROWS, reader

from inweights.cli import main
from inweights.compare import _run as stages

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = tmp_path_factory.mktemp("reader")
    model = reader(dtype=torch.float32)
    model.model.save_pretrained(where)
    model.tokenizer.save_pretrained(where)
    return str(where)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: str) -> Run:
    """`inweights compare …` on a tiny model, made-up reviews and an empty cache, in this process."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["inweights", "compare", "--model", folder, "--device", "cpu", *args])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return call


SMALL = ("--queries", "4", "--orders", "3", "--epochs", "2", "--every", "1", "--rate", "1e-3")


def test_json_and_files(run: Run, tmp_path: Path) -> None:
    code, out, err = run("--task", "sst2", *SMALL, "--also", "mlp", "--out", str(tmp_path / "out"), "--json")
    assert code == 0
    result = json.loads(out)
    assert {"order_sensitivity", "token_overlap", "overlap_cosine", "accuracy", "verdicts"} <= set(result)
    assert "mlp" in result["token_overlap"]
    assert "Expected at most" in err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"compare-sst2.json", "compare-sst2.csv", "compare-sst2-token_overlap.png"} <= names


def test_the_table_names_both_hypotheses(run: Run) -> None:
    code, out, _ = run("--task", "sst2", *SMALL)
    assert code == 0
    assert "Hypothesis 1, order" in out
    assert "Hypothesis 2, hypothesis_2: holds" in out
    assert "Untrained models answer almost evenly" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--task", "sst3"), "There is no task 'sst3'; did you mean sst2"),
        (("--task", "sst2", "--demonstrations", "60"), "ask for fewer"),
        (("--task", "sst2", *SMALL, "--also", "many"), "`many` is not possible here: The task 'sst2' has 64"),
        (("--task", "sst2", "--also", "layer-casual"), "did you mean layer-causal"),
        (("--task", "sst2", "--dtype", "bfloat16"), "needs float32 or float64"),
        (("--task", "sst2", "--orders", "1"), "--orders is 1: at least 2 are needed"),
        (("--task", "sst2", "--demonstrations", "1"), "has one order only"),
        (("--task", "sst2", "--epochs", "5", "--every", "9"), "--every is 9, but there are only 5 epochs"),
        (("--task", "sst2", "--rate", "0"), "must be numbers above 0"),
        (("--task", "sst2", "--queries", "0"), "--queries is 0: at least 1 is needed"),
        (("--task", "sst2", "--also-epochs", "-1"), "--also-epochs is -1"),
        (("--task", "sst2", *SMALL, "--also", "sizes", "--queries", "60"), "`sizes` is not possible here"),
        (("--task", "sst2", "--model", "no/such/folder"), "which is neither"),
        (("--task", "sst2", "--device", "abacus"), "--device is 'abacus'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run: Run, args: tuple[str, ...], words: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130 and one line; what was measured before is read by the next run."""
    calls: list[float] = []
    real = stages.measured_descent

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[4])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(stages, "measured_descent", interrupted)
    args = ("--task", "sst2", *SMALL, "--rate", "1e-2", "--no-controls")
    code, out, err = run(*args)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "Interrupted. The same command resumes."
    assert "Traceback" not in err
    assert run(*args)[0] == 0
    assert calls == [1e-3, 1e-2, 1e-2]
