"""The command `inweights bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest


@pytest.mark.parametrize(("name", "rows"), [("prefix", ["packed", "copies"]), ("update", ["time", "memory"])])
def test_benches_measure_both_sides_and_check_that_they_agree(
    run: Callable[..., Any], name: str, rows: list[str]
) -> None:
    """With one round instead of seven: how steady the ratios are is not asked here."""
    job = import_module(f"inweights.bench.{name}")
    with patch.object(job, "run", partial(job.run, rounds=1)):
        result = json.loads(run("bench", name, "--json").out)
    assert [row["name"] for row in result["rows"]] == rows
    head = next(row for row in result["rows"] if row["name"] == result["headline"])
    for key in ("ours", "rival", "ratio"):
        assert result[key] == head[key] > 0
    for row in result["rows"]:
        assert row["ratio"] == pytest.approx(row["rival"] / row["ours"])
        assert row["goal"] > 1
    assert result["agrees"] is True
    assert result["error"] <= result["tolerance"]


def test_benches_are_listed(run: Callable[..., Any]) -> None:
    assert set(json.loads(run("bench", "--json").out)["benches"]) == {
        "prefix",
        "update",
        "trace",
        "generate",
        "fold",
        "knowledge",
        "predictors",
        "compare",
        "train",
        "app",
    }
    assert "prefix" in run("bench").out


def test_disagreement_exits_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A ratio is meaningless if the results differ."""
    import inweights.bench
    from inweights.bench._measure import Result, Row
    from inweights.cli import main

    wrong = Result("nothing", "a", (Row("a", 1.0, 2.0, "seconds", 1.0),), error=1.0, tolerance=0.1)
    monkeypatch.setattr(inweights.bench, "load", lambda name: lambda: wrong)
    monkeypatch.setattr(sys, "argv", ["inweights", "bench", "prefix"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "DISAGREE" in capsys.readouterr().out
