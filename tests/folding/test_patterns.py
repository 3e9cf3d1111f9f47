"""Foreign patterns are bounded: what would take long to match is refused, what PEFT writes is not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweights import InputError
from inweights._errors import Problems
from inweights.folding._patterns import MAX_REPEATING, Values, check_patterns, is_plain


def refused(patterns: object, matrices: int = 1000) -> str:
    problems = Problems()
    check_patterns({"rank_pattern": patterns}, "rank_pattern", matrices, "FILE", problems)
    with pytest.raises(InputError) as error:
        problems.stop()
    return str(error.value)


def test_what_is_refused() -> None:
    assert refused([1]) == "FILE has a rank_pattern that is no object."
    many = {f"a{i}": 1 for i in range(10**6)}
    start = time.process_time()
    assert refused(many) == "FILE has 1000000 patterns in rank_pattern, but the model has only 1000 matrices."
    assert time.process_time() - start < 1
    repeating = {f"{'a' * i}.*": 1 for i in range(1, MAX_REPEATING + 2)}
    assert f"{MAX_REPEATING + 1} patterns with * or + in rank_pattern, above {MAX_REPEATING}" in refused(repeating)
    assert "-1 for 'a', but that must be a number above 0" in refused({"a": -1})
    for pattern in ("(a+)+$", "(a|a)*", ".*.*.*", "a{9}", "[", "[[a]", "a" * 201, r"\1", "a b", "*"):
        assert "which is not a plain pattern" in refused({pattern: 1})


def test_what_peft_writes_is_taken() -> None:
    problems = Problems()
    names = ["q_proj", r"layers\.1\.mlp\.up_proj", "^model.decoder.layers.0.k_proj", r"layers\.[0-9]+\.mlp.*", "a|b"]
    check_patterns({"rank_pattern": dict.fromkeys(names, 4)}, "rank_pattern", 10, "FILE", problems)
    check_patterns({"rank_pattern": None}, "rank_pattern", 10, "FILE", problems)
    problems.stop()
    values = Values({"r": 8, "rank_pattern": {"layers.1.q_proj": 2, "q_proj": 3}}, "rank_pattern", "r")
    assert [values.of(f"model.layers.{i}.{m}") for i, m in ((1, "q_proj"), (0, "q_proj"), (0, "k_proj"))] == [2, 3, 8]


def test_the_slowest_that_are_taken_are_fast() -> None:
    """All patterns that may repeat, the worst of their kind, on every matrix of a model of a billion parameters."""
    slow = {f".*.*{'x' * i}": 1 for i in range(1, MAX_REPEATING + 1)}
    assert all(map(is_plain, slow))
    values = Values({"r": 8, "rank_pattern": slow}, "rank_pattern", "r")
    start = time.process_time()
    for i in range(300):
        assert values.of(f"model.layers.{i}.self_attention.query_key_value_projection") == 8
    assert time.process_time() - start < 1


@given(st.text("ab.*+|[]^$\\-", max_size=12))
def test_whatever_is_plain_can_be_used(pattern: str) -> None:
    if is_plain(pattern):
        re.compile(rf"(.*\.)?({pattern})$").match("a.b.a-b")
