"""Generated text as `generate` shows it."""

from __future__ import annotations

from talking import talker

import inweights as iw
from inweights.cli.generate import _text
from inweights.folding import Frame


def test_in_a_chat_an_answer_ends_with_its_turn() -> None:
    """Nothing of the next turn, and no mark of the template, is shown; plain text is shown as it is."""
    model = talker()
    prompt = iw.Prompt(model, context="My name is Bob.", query="Who", chat=True)
    end = next(iter(Frame.of(model, "any", True).ends))
    words, more = (model.tokenizer(t, add_special_tokens=False)["input_ids"] for t in ("It is Bob.", "user"))
    assert _text(prompt, [*words, end, *more], chat=True) == model.tokenizer.decode(words)
    assert _text(prompt, [*words, end, *more], chat=False) == model.tokenizer.decode([*words, end, *more])
