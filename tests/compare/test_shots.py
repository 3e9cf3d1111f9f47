"""Demonstrations and queries as tokens, and their orders."""

from __future__ import annotations

import pytest
import torch
from talking import talker
from worded import ROWS, reader, reviews

from inweights import InputError
from inweights.compare import orders, shots
from inweights.compare._shots import tokenised
from inweights.data import DATA


def test_labels_are_shown_equally_often_and_no_query_is_a_demonstration() -> None:
    model = reader()
    shown = reviews(model, 4, 6)
    assert sorted(shown.answered.count(a) for a in set(shown.answered)) == [2, 2]
    assert not set(shown.asked) & set(shown.queries)
    assert set(shown.right.tolist()) <= set(shown.labels.tolist())
    assert model.tokenizer.decode(shown.prefix([0])).startswith("Review:")
    assert len({len(shown.prefix(o)) for o in orders(4, 24, torch.Generator()).tolist()}) == 1


def test_tokens_of_demonstrations_are_those_of_the_whole_text() -> None:
    """Line ends are tokenised as before another review, and not as at the end of a text."""
    model = reader()
    shown = reviews(model, 3, 1)
    text = "".join(f"{question} {answer}\n\n" for question, answer in shown.texts[:3]) + shown.texts[3][0]
    whole = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert [*shown.prefix([0, 1, 2]), *shown.queries[0]] == whole


def test_labels_that_begin_alike_are_refused() -> None:
    """For a tokenizer of bytes every answer begins with a space."""
    with pytest.raises(InputError, match="labels 'positive' and 'negative' of 'sst2' begin with the same token"):
        tokenised(talker().tokenizer, DATA["sst2"], ROWS, 4, 6, 0)


def test_answers_that_begin_alike_are_left_out_of_tasks_without_labels() -> None:
    tok = reader().tokenizer
    rows = [("film", "moves"), ("plot", "moves on"), ("cast", "sings"), ("end", "sinks"), ("hero", "soars on")]
    shown = tokenised(tok, DATA["plurals"], rows, 1, 2, 0)
    assert shown.left_out == 2
    assert shown.several == pytest.approx(1 / 3)


def test_too_few_rows_and_unknown_tasks_are_one_sentence() -> None:
    model = reader()
    with pytest.raises(
        InputError, match="has 64 usable rows, but 60 demonstrations and 6 queries are 66: ask for fewer"
    ):
        reviews(model, 60, 6)
    with pytest.raises(InputError, match="There is no task 'sst3'; did you mean sst2"):
        shots(model, "sst3", 4, 6)


def test_orders_are_distinct_and_as_many_as_there_are() -> None:
    result = orders(4, 10, torch.Generator().manual_seed(1))
    assert result.shape == (10, 4)
    assert len(set(map(tuple, result.tolist()))) == 10
    assert result[0].tolist() == [0, 1, 2, 3]
    assert len(orders(3, 10, torch.Generator())) == 6
    assert len(orders(1, 10, torch.Generator())) == 1


def test_shuffled_labels_are_all_wrong_where_that_is_possible() -> None:
    shown = reviews(reader(), 6, 1)
    wrong = shown.relabelled(torch.Generator().manual_seed(0))
    assert sorted(wrong.answered) == sorted(shown.answered)
    assert all(a != b for a, b in zip(wrong.answered, shown.answered, strict=True))
    uneven = reviews(reader(), 5, 1)
    moved = uneven.relabelled(torch.Generator().manual_seed(0))
    assert sum(a == b for a, b in zip(moved.answered, uneven.answered, strict=True)) == 1
