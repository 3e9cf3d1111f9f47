"""`inweights families`: both depths, and what their JSON and table hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_both_depths_have_the_same_keys_and_their_own_results(run: Run, tmp_path: Path) -> None:
    end = run("families", "llama", "--depth", "both", "--seeds", "1", "--out", tmp_path / "f.md", "--json")
    assert end.code == 0
    result = json.loads(end.out)
    tiny, deep = result, result["deep"]
    assert set(deep) == {"families", "exact", "total"} <= set(tiny)
    (small,), (large,) = tiny["families"], deep["families"]
    assert set(small) == set(large)
    assert (tiny["exact"], deep["exact"]) == (1, 1)
    assert small["blocks"] < 12 <= large["blocks"]
    assert small["float32_token_error"] is None
    assert large["float32_static_error"] > large["static_error"]
    assert large["amplification"] > 0
    row = next(line for line in (tmp_path / "f.md").read_text().splitlines() if line.startswith("| llama "))
    assert row.count("exact") == 2


def test_tiny_alone_is_the_default(run: Run) -> None:
    result = json.loads(run("families", "gpt2", "--seeds", "1", "--json").out)
    assert result["deep"] is None
    assert result["exact"] == 1


def test_deep_alone_leaves_the_tiny_ones_empty(run: Run) -> None:
    result = json.loads(run("families", "gpt2", "--depth", "deep", "--seeds", "1", "--json").out)
    assert result["families"] == []
    assert result["exact"] is None
    assert result["deep"]["exact"] == 1


def test_a_family_without_anything_to_patch_is_reported(run: Run) -> None:
    (family,) = json.loads(run("families", "prophetnet", "--seeds", "1", "--json").out)["families"]
    assert family["status"] == "not-exact"
    assert "neither a block nor the head can be patched" in family["reason"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--depth", "middle"), "--depth is 'middle', but must be one of tiny, deep, both"),
        (("--depth", "deep", "--out", "f.md"), "--out writes the table of both depths, but --depth is 'deep'"),
    ],
)
def test_bad_input_gets_one_sentence(run: Run, args: tuple[str, ...], words: str) -> None:
    end = run("families", "llama", *args)
    assert end.code == 2
    assert words in end.err
