"""The benchmark of what a fold knows has the columns that scripts rely on, and goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from talking import talker

from inweights import InputError
from inweights.bench import knowledge


def test_rows_pool_the_registers_of_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights know nothing: what is checked is that every column is measured, and once."""
    calls = []
    model = talker()
    model.model.config.max_position_embeddings = 8192
    monkeypatch.setattr(knowledge, "SEEDS", (10,))
    monkeypatch.setattr(knowledge, "load", lambda *_, **__: model)
    monkeypatch.setattr(knowledge, "ASKED", {"cpu": 8, "cuda": 8})
    real = knowledge.measured
    monkeypatch.setattr(knowledge, "measured", lambda *args: calls.append(args) or real(*args))
    told = knowledge.run(("10",), folder=tmp_path).as_json()
    (row,) = told["rows"]
    for name in (
        "prompted",
        "window",
        "retrieved",
        "bare",
        "folded",
        "random",
        "rival",
        "shuffled_new",
        "shuffled_old",
    ):
        assert 0 <= row[f"accuracy_{name}"] <= 1
    assert row["verdicts"][0] in ("GOOD", "PARTIAL", "FAILED")
    assert row["seconds_total"] > row["seconds_solve"] > 0
    assert json.loads((tmp_path / "10-10.json").read_text())["accuracy_folded"] == row["accuracy_folded"]
    knowledge.run(("10",), folder=tmp_path)
    assert len(calls) == 1


@pytest.mark.parametrize("size", ["7", "many", "5"])
def test_a_size_that_no_register_has_is_refused(size: str) -> None:
    with pytest.raises(InputError, match="must be a number of facts"):
        knowledge.run((size,))
