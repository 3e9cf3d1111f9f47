"""Multiple-choice questions are judged by the log-probability for each character."""

from __future__ import annotations

import pytest
import torch
from talking import talker

from inweights.folding._choices import Choice, choice_accuracy
from inweights.models import Model

QUESTIONS = (
    ("What is black?", ("coal", "snow", "a lemon")),
    ("Who barks?", ("a cat", "the neighbour's dog")),
    ("Which is larger?", ("an elephant", "a mouse", "an ant")),
)


def plainly(model: Model, question: str, choices: tuple[str, ...]) -> list[float]:
    """The scores of the choices, one pass for each, of the whole text."""
    tok, scores = model.tokenizer, []
    for choice in choices:
        ids = tok(f"Question: {question}\nAnswer: {choice}", add_special_tokens=False)["input_ids"]
        if tok.bos_token == "<s>":
            ids = [tok.bos_token_id, *ids]
        size = len(tok(f" {choice}", add_special_tokens=False)["input_ids"])
        logp = model.model(input_ids=torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)
        each = logp.gather(-1, torch.tensor(ids[1:])[:, None])[-size:]
        scores.append(float(each.sum()) / (len(choice) + 1))
    return scores


@pytest.mark.parametrize("bos", [False, True])
def test_the_likeliest_choice_for_each_character_counts(bos: bool) -> None:
    model = talker(bos=bos)
    every = [plainly(model, *asked) for asked in QUESTIONS]
    best: list[Choice] = [(q, c, s.index(max(s))) for (q, c), s in zip(QUESTIONS, every, strict=True)]
    worst: list[Choice] = [(q, c, s.index(min(s))) for (q, c), s in zip(QUESTIONS, every, strict=True)]
    assert choice_accuracy(model, best) == 1.0
    assert choice_accuracy(model, worst) == 0.0
    assert choice_accuracy(model, [best[0], worst[1]]) == 0.5
