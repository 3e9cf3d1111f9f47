"""The number of functions that are held: its interpolation, and verdicts where shares are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import width

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900


def test_how_many_functions_are_half_held() -> None:
    assert width.capacity((2, 4, 8), (0.9, 0.75, 0.25)) == pytest.approx(4 * 2**0.5, abs=1e-12)
    assert width.capacity((2, 4, 8), (0.0, 0.9, 0.9)) == pytest.approx(2**0.5, abs=1e-12)
    assert width.capacity((2, 4, 8), (0.9, 0.8, 0.7)) == 8


@pytest.mark.parametrize(
    ("power", "by_depth", "narrow", "wanted"),
    [
        (0.5, 0.0, 1.0, Verdict.PASS),
        (0.05, 0.0, 1.0, Verdict.FAIL),
        (0.5, 0.5, 1.0, Verdict.HOLDS_NOT_DIAGNOSTIC),  # depth does as well
        (0.5, 0.0, 0.0, Verdict.INCONCLUSIVE),  # the narrow decoder cannot do anything
    ],
)
def test_more_width_holds_more(
    power: float, by_depth: float, narrow: float, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    """A share of a half at 3 functions of width 8 and 2 layers, which grows by powers of width and depth."""

    def held(trial: Trial, wide: int, size: int, layers: int = 2) -> float:
        most = 3 * (wide / 8) ** power * (layers / 2) ** by_depth
        return (narrow if wide == 8 else 1.0) * min(1.0, most / (2 * size) * 1.01 ** (trial.seed - FIRST))

    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: full)
    monkeypatch.setattr(width, "held", held)
    result, judged = verdict("note-width-pools", 3, FIRST)
    assert result is wanted, judged
