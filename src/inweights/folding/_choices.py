"""Multiple-choice questions: the choice that a model gives the highest probability for each character."""

from __future__ import annotations

from collections.abc import Sequence

from inweights.folding._methods import batch_tokens
from inweights.folding._teacher import answer_scores
from inweights.models import Model, adds_bos

Choice = tuple[str, Sequence[str], int]
"""A question, its choices, and the index of the right one."""


def choice_accuracy(model: Model, items: Sequence[Choice]) -> float:
    """The share of questions of which the right choice has the highest log-probability for each character.

    Question and choice are plain text: `Question: … Answer: …`.
    """
    tok = model.tokenizer
    start = (tok.bos_token_id,) if adds_bos(tok) else ()
    asked, answers, lengths = [], [], []
    for question, choices, _ in items:
        ids = (*start, *tok(f"Question: {question}\nAnswer:", add_special_tokens=False)["input_ids"])
        for choice in choices:
            asked.append(ids)
            answers.append(tuple(tok(f" {choice}", add_special_tokens=False)["input_ids"]))
            lengths.append(len(choice) + 1)
    totals = answer_scores(model, asked, answers, batch_tokens=batch_tokens(model))
    scores = iter([total / length for total, length in zip(totals, lengths, strict=True)])
    right = 0
    for _, choices, index in items:
        each = [next(scores) for _ in choices]
        right += each[index] == max(each)
    return right / len(items)
