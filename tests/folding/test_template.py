"""Chat templates of merged checkpoints, and the hint about a missing beginning-of-text token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from talking import TEMPLATE, talker, tokenizer
from transformers import AutoTokenizer

from inweights.folding import Frame, adds_system_turn, make
from inweights.folding._template import without_system_turn
from inweights.models import Model, bos_hint

DEFAULT = "<|im_start|>system\nYou are helpful.<|im_end|>\n"
FIRST = "{% if messages[0]['role'] != 'system' %}" + DEFAULT + "{% endif %}"
# As in Llama 3.1: the system turn is always there, and holds more than the user's text.
ALWAYS = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "<|im_start|>system\nToday: {{ strftime_now('%Y') }}\n{{ system }}<|im_end|>\n" + TEMPLATE
)
USER, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}
SYSTEM = {"role": "system", "content": "Speak like a pirate."}


def with_template(template: str, bos: bool = False) -> Any:
    result = tokenizer(bos)
    result.chat_template = template
    return result


def text(tok: Any, *chat: dict[str, str]) -> str:
    return str(tok.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=True))


@pytest.mark.parametrize(
    "tok",
    [with_template(FIRST + TEMPLATE), with_template(FIRST + TEMPLATE + "\n"), with_template(ALWAYS, bos=True)],
    ids=["default", "newline", "always"],
)
def test_the_default_system_turn_is_taken_out_and_nothing_else(tok: Any) -> None:
    assert adds_system_turn(tok)
    changed = without_system_turn(tok)
    assert not adds_system_turn(changed)
    assert adds_system_turn(tok)  # it is left as it was
    frame = Frame.of(Model(talker().model, tok, "x"), SYSTEM["content"])
    for history in ([], [("Hi", "Ho")]):
        chat = [each for _ in history for each in (USER, ANSWER)]
        bare = tok.decode([*frame.before, *frame.asked_after(history, "Hi")])
        assert text(changed, *chat, USER) == bare
        assert text(changed, SYSTEM, *chat, USER) == text(tok, SYSTEM, *chat, USER)
        assert "system" not in bare


@pytest.mark.parametrize("tok", [tokenizer(), tokenizer(bos=True)])
def test_a_template_without_a_default_stays(tok: Any) -> None:
    assert not adds_system_turn(tok)
    assert without_system_turn(tok) is tok


def test_the_merged_checkpoint_has_the_template_and_the_adapter_a_warning(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    made = talker()
    made.tokenizer.chat_template = FIRST + TEMPLATE
    base = str(tmp_path / "base")
    made.model.save_pretrained(base)
    made.tokenizer.save_pretrained(base)
    fold = make(made, SYSTEM["content"], calibration=["Who?", "Why?"], method="vector", report=False).fold
    adapter = str(fold.save_pretrained(tmp_path / "adapter"))
    common = ("export", adapter, "--model", base, "--json")
    merged = json.loads(run(*common, "--format", "merged", "--out", str(tmp_path / "merged")).out)
    assert merged["warnings"] == []
    assert text(AutoTokenizer.from_pretrained(merged["path"]), USER) == text(made.tokenizer, USER).removeprefix(DEFAULT)
    other = json.loads(run(*common, "--format", "peft", "--out", str(tmp_path / "peft")).out)
    assert "adds a system turn of its own" in other["warnings"][0]


def test_a_missing_beginning_of_text_is_hinted_at(run: Callable[..., Any], tmp_path: Path) -> None:
    assert bos_hint(talker()) == ""  # as in SmolLM2, the token marks every turn
    missing = talker(bos=True)
    assert "adds no beginning-of-text token '<s>' to plain text, but its chat template" in bos_hint(missing)
    missing.model.save_pretrained(tmp_path / "m")
    missing.tokenizer.save_pretrained(tmp_path / "m")
    args = ("verify", "--context", "My name is Bob.", "--query", "I", "--model", str(tmp_path / "m"))
    assert "Hint: the tokenizer adds no beginning-of-text token" in run(*args).err
    # What the hint says to do.
    missing.tokenizer.add_bos_token = True
    missing.tokenizer.update_post_processor()
    assert bos_hint(missing) == ""
    # The settings ask for it, but transformers does not heed them.
    plain = talker(bos=True)
    plain.tokenizer.chat_template = None
    plain.tokenizer.save_pretrained(tmp_path / "p")
    assert bos_hint(Model(plain.model, plain.tokenizer, "p", str(tmp_path / "p"))) == ""
    settings = tmp_path / "p" / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "add_bos_token": True}))
    read = AutoTokenizer.from_pretrained(tmp_path / "p")
    assert "its tokenizer_config.json asks for it" in bos_hint(Model(plain.model, read, "p", str(tmp_path / "p")))
