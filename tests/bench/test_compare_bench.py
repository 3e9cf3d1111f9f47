"""The benchmark of comparisons measures two sides that agree."""

from __future__ import annotations

import pytest
import torch
from worded import ROWS, reader

from inweights.bench import compare


def test_both_sides_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader(dtype=torch.float32)
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)
    monkeypatch.setattr(compare, "load", lambda *_, **__: model)
    result = compare.run(count=10, queries=10).as_json()
    assert result["headline"] == "batched"
    assert result["agrees"]
    assert result["rows"][0]["goal"] == 4
    assert result["ours"] > 0
