"""docs/json.md documents every key that commands print; former names are still there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from talking import talker

ROOT = Path(__file__).parents[2]
Run = Callable[..., Any]
TEXTS = ("--context", "My name is Bob. ", "--query", "I am")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    where = tmp_path_factory.mktemp("tiny")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return "--model", str(where)


def documented() -> set[str]:
    return set(re.findall(r"`(\w+)`", (ROOT / "docs" / "json.md").read_text()))


def former(values: dict[str, Any], **names: str) -> None:
    assert {values[old] == values[new] for old, new in names.items()} == {True}


def test_every_key_is_documented(run: Run, tiny: tuple[str, str], tmp_path: Path) -> None:
    queries, patch, adapter = tmp_path / "q.json", tmp_path / "p", tmp_path / "a"
    queries.write_text(json.dumps([{"query": f"What is {i}?", "answer": "x"} for i in range(12)]))
    context = ("--context", "Speak like a pirate.", *tiny)
    commands = {
        "verify": (*TEXTS, *tiny, "--static", "--new-tokens", "2"),
        "patch": (*TEXTS, *tiny, "--static", "--out", patch),
        "generate": (*TEXTS, *tiny, "--new-tokens", "2"),
        "trace": (*TEXTS, *tiny),
        "anatomy": tiny,
        "fold": (*context, "--calibration", queries, "--rank", "2", "--out", adapter),
        "evaluate": (*context, "--adapter", adapter, "--queries", queries, "--new-tokens", "4", "--growth"),
        "combine": (adapter, adapter, *tiny, "--out", tmp_path / "b"),
        "export": (adapter, *tiny, "--out", tmp_path / "c"),
    }
    printed = {name: json.loads(run(name, *args, "--json").out) for name, args in commands.items()}
    known = documented()
    for name, values in printed.items():
        assert not values.keys() - known - {"how"}, name
    assert not printed["fold"]["fidelity"].keys() - known
    assert len(printed["fold"]["recovered_by_turn"]) == 3
    assert printed["fold"]["calibration_queries"] == 9
    former(printed["verify"]["tokens"], left="remaining")
    former(printed["trace"], how="computation")
    for block in printed["anatomy"]["blocks"]:
        assert not block.keys() - known
        former(block, tail="residual_form", unit="adds_directly", entry="input_norm")


def test_the_keys_of_claims(run: Run) -> None:
    values = json.loads(run("claims", "show", "dherin-theorem", "--json").out)
    former(values, repeats="same_statement_as", aside="not_counted_because")


PHRASES = (
    "tokens folded, asked", "Of each update", "Rank of each update", "user's turn to make up", "carried by their head",
    "ways to leave their law", "Plain text, without the model's chat template", "Number the remaining positions",
)  # fmt: skip


def test_phrases_that_new_readers_did_not_understand_are_gone() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    text = {page: " ".join(page.read_text().split()) for page in pages}
    assert {(str(page), words) for page, each in text.items() for words in PHRASES if words in each} == set()
