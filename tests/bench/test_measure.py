"""Races alternate, and results have the keys that scripts rely on."""

from __future__ import annotations

import time

from inweights.bench._measure import Result, Row, race


def test_both_sides_take_turns() -> None:
    turns = []

    def ours() -> None:
        turns.append("ours")
        time.sleep(0.03)

    def rival() -> None:
        turns.append("rival")
        time.sleep(0.06)

    fast, slow = race(ours, rival, rounds=3)
    assert turns[4:] == ["ours", "rival"] * 3  # after two of each to see how long they take
    assert fast < slow


def test_the_top_level_numbers_are_the_headlines() -> None:
    rows = (Row("a", 2.0, 8.0, "seconds", 1.0), Row("b", 1.0, 10.0, "bytes", 1.0))
    result = Result("setting", "b", rows, error=0.0, tolerance=0.0).as_json()
    assert (result["ours"], result["rival"], result["ratio"]) == (1.0, 10.0, 10.0)
    assert [row["ratio"] for row in result["rows"]] == [4.0, 10.0]
