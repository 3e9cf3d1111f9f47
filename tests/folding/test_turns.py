"""Conversations: a fold is measured in the first, second and third turn, and reports show answers side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from talking import talker

from inweights.folding import Frame, fidelity_of, make
from inweights.folding._turns import NEW, conversations

CONTEXT = "Speak like a pirate."
QUERIES = [f"What is {i}?" for i in range(9)]


@pytest.mark.parametrize("bos", [False, True])
def test_a_later_turn_is_what_the_template_makes_of_it_without_the_system_turn(bos: bool) -> None:
    frame = Frame.of(talker(bos=bos), CONTEXT)
    assert frame.asked_after([], "Who?") == frame.asked("Who?")
    tok = frame.model.tokenizer
    later = tok.decode(frame.asked_after([("Who?", "Me.")], "Why?"))
    assert later == (
        "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\nMe.<|im_end|>\n"
        "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    "first", ["{% if messages | length > 2 %}long{% endif %}", "{% if messages | length > 2 %}{{ 1 / 0 }}{% endif %}"]
)
def test_a_template_that_does_not_take_later_turns_is_left_out(first: str) -> None:
    model = talker()
    model.tokenizer.chat_template = first + model.tokenizer.chat_template
    frame = Frame.of(model, CONTEXT)
    assert frame.asked_after([("Who?", "Me.")], "Why?") == ()
    assert len(conversations(frame, QUERIES)) == 1


def test_each_turn_asks_other_queries_behind_the_prompted_answers() -> None:
    frame = Frame.of(talker(), CONTEXT)
    turns = conversations(frame, QUERIES)
    assert [t.queries for t in turns] == [tuple(QUERIES[i : i + 3]) for i in (0, 3, 6)]
    tok = frame.model.tokenizer
    for first, second in pairwise(turns):
        for asked, answer, later in zip(first.asked, first.answers, second.asked, strict=True):
            text = tok.decode(answer, skip_special_tokens=True).strip()
            assert tok.decode(later).startswith(tok.decode(asked) + text)
    assert all(len(a) <= NEW for t in turns for a in t.answers)
    assert conversations(Frame.of(talker(), CONTEXT, chat=False), QUERIES) == []
    assert conversations(frame, QUERIES[:2]) == []


def test_the_report_has_the_turns_and_three_questions_with_answers() -> None:
    model = talker()
    made = make(model, CONTEXT, calibration=8, new=6, rank=2, held_out=24)
    report = made.fidelity
    assert report is not None
    assert [t.name for t in report.turns] == ["turn 1", "turn 2", "turn 3"]
    assert all(t.queries == 8 and t.kl_bare > 0 for t in report.turns)
    assert len(report.shown) == 3
    assert all(set(row) == {"question", "prompted", "bare", "folded"} for row in report.shown)
    assert report.as_json()["turns"][2]["recovered"]["value"] == report.turns[2].recovered.value
    # The controls: no fold recovers nothing, in no turn, and answers as the bare model.
    nothing = replace(made.fold, updates={n: u * 0.0 for n, u in made.fold.updates.items()})
    frame = Frame.of(model, CONTEXT)
    empty = fidelity_of(frame, nothing, {"queries": QUERIES}, new=6)
    torch.testing.assert_close(
        torch.tensor([t.recovered.value for t in empty.turns]), torch.zeros(3), atol=1e-5, rtol=0
    )
    assert all(row["folded"] == row["bare"] for row in empty.shown)
    assert any(row["folded"] != row["prompted"] for row in empty.shown)
