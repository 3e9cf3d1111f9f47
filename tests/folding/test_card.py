"""The card of a fold, and its page."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import yaml

from inweights import InputError
from inweights.folding._card import Card
from inweights.folding._page import page, served_rank

CARD = Card(
    base="owner/model", base_fingerprint="ab12", prompt_sha256="cd34", prompt_tokens=12, chat=True, method="distil",
    rank=12, seed=3, calibration={"source": "a | b", "queries": 64, "answer tokens": 999},
    fidelity={
        "folded": {"KL": {"value": 0.0123, "low": 0.01, "high": 0.02}, "agreement": [0.95, 0.9, 0.97]},
        "bare": {"KL": 1.25, "agreement": 0.3}, "unrelated": {"perplexity": 9.5}, "random": {"KL": 1.3},
        "recovered": {"value": 0.9, "low": 0.8, "high": 1},
    },
)  # fmt: skip


def test_a_card_comes_back_from_json() -> None:
    assert Card.from_json(CARD.to_json()) == replace(CARD, fidelity=json.loads(CARD.to_json())["fidelity"])
    assert Card.from_json(CARD.to_json()).to_json() == CARD.to_json()
    assert set(CARD.versions) == {"inweights", "torch", "transformers"}
    assert Card.from_json(Card(fidelity={"x": math.nan}).to_json()).fidelity == {"x": None}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "inweights.json cannot be read, column 2 is not JSON"),
        ("[" * 100_000, "nested more than 64 levels deep"),
        ("[]", "it holds a list instead of a JSON object"),
        ('{"format": "other"}', "not a card of this format"),
        (
            '{"format": "inweights-fold-1", "rank": true, "base": 3}',
            "(?s)'base': Input should be .*'rank': Input should be",
        ),
        (
            '{"format": "inweights-fold-1", "prompt_sha256": "<script>"}',
            "'prompt_sha256': String should match",
        ),
    ],
)
def test_a_broken_card_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Card.from_json(text)


def test_the_page_says_what_it_is_and_what_it_leaks() -> None:
    text = page(CARD)
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["library_name"] == "peft"
    assert front["base_model"] == "owner/model"
    assert {"lora", "peft"} <= set(front["tags"])
    for part in ("`ab12`", "`cd34`", "leaks its prompt", "PeftModel", "--format gguf", "merged", "LoRARequest",
                 "max_lora_rank=16", "a \\| b", "0.0123 [0.01, 0.02]", "| bare | 1.25 | 0.3 |", "| random | 1.3 |  |",
                 "0.9 [0.8, 1]", "|  | perplexity |", CARD.versions["torch"]):  # fmt: skip
        assert part in text, part
    assert "Its text is not in this folder" in text


def test_the_prompt_is_shown_only_if_embedded_and_cannot_leave_its_fence() -> None:
    secret = "You are Bob.\n````\n# Not a heading"
    text = page(replace(CARD, prompt=secret))
    assert f"`````text\n{secret}\n`````" in text
    assert "You are Bob" not in page(CARD)


def test_a_folder_of_somebodys_machine_is_no_base_model_of_the_hub() -> None:
    assert "base_model:" not in page(replace(CARD, base="/home/eve/model"))
    assert "SmolLM2-135M-Instruct" in page(replace(CARD, base="smollm2"))
    assert "Not measured" in page(replace(CARD, fidelity=None))


def test_ranks_that_vllm_knows() -> None:
    assert [served_rank(r) for r in (1, 4, 8, 9, 100, 600)] == [1, 8, 8, 16, 128, 600]
