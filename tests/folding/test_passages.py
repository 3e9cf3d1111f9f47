"""Retrieval: BM25 against its formula by hand, and what fits a budget."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweights.folding import bm25, retrieved

PASSAGES = ["the cat sat", "the dog sat down by the cat", "a bird", "nothing here at all"]


def count(text: str) -> int:
    return len(text.split())


def test_the_formula_by_hand() -> None:
    """Three passages of 2, 4 and 3 words; `red` is in two of them, `fox` in one."""
    result = bm25(["red fox", "red red hen here", "one two three"], "Red fox?")
    red, fox = log(1 + 1.5 / 2.5), log(1 + 2.5 / 1.5)
    short, long = 1.2 * (0.25 + 0.75 * 2 / 3), 1.2 * (0.25 + 0.75 * 4 / 3)
    expected = [(red + fox) * 2.2 / (1 + short), red * 2 * 2.2 / (2 + long), 0.0]
    assert result == pytest.approx(expected, rel=1e-12)


def test_a_word_of_the_query_counts_as_often_as_it_stands_there() -> None:
    assert bm25(PASSAGES, "cat cat") == pytest.approx([2 * s for s in bm25(PASSAGES, "cat")])


def test_nothing_to_find() -> None:
    assert bm25([], "cat") == []
    assert bm25(["", ""], "cat") == [0.0, 0.0]
    assert bm25(PASSAGES, "") == [0.0] * 4
    assert retrieved([], "cat", count) == ""


@given(st.lists(st.text("ab "), max_size=6), st.text("ab "))
def test_scores_are_never_negative(passages: list[str], query: str) -> None:
    assert all(score >= 0 for score in bm25(passages, query))


def test_the_best_passages_in_the_order_of_the_document() -> None:
    passages = ["x y z", "cat dog", "p q r", "dog dog", "the end"]
    assert retrieved(passages, "dog", count, budget=4) == "cat dog\ndog dog"
    assert retrieved(passages, "dog", count, budget=2) == "dog dog"
    assert retrieved(passages, "dog", count, budget=1) == ""
    assert retrieved(passages, "dog", count) == "\n".join(passages)


def test_what_does_not_fit_is_passed_over() -> None:
    assert retrieved(["dog dog dog dog dog", "dog cat", "x"], "dog", count, budget=3) == "dog cat\nx"


@given(st.lists(st.text("ab ", min_size=1), max_size=8), st.text("ab "), st.integers(0, 12))
def test_the_budget_holds(passages: list[str], query: str, budget: int) -> None:
    assert len(retrieved(passages, query, len, budget)) <= budget
