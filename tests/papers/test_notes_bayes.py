"""Claims of the notes about Bayesian inference in context, on predictors with known statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from inweights.lab.predictors import Averaging, KernelRidge, Predictor, Ridge
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import bayes

Stand = Callable[[Mapping[str, Callable[[Trial], Any]]], None]
Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


@pytest.mark.parametrize(
    ("model", "wanted"),
    [(Ridge(penalty=1.0), Verdict.PASS), (Averaging(), Verdict.PASS), (KernelRidge(scale=3.0), Verdict.FAIL)],
)
def test_predictions_from_statistics_are_distinguished(
    model: Predictor, wanted: Verdict, stand_in: Stand, verdict: Judge
) -> None:
    stand_in(dict.fromkeys(bayes.NOISES, lambda _: model))
    found, judged = verdict("note-sufficient")
    assert found is wanted, judged


def test_rotated_contexts_have_the_same_statistics() -> None:
    """float64, 1e-12; they are other examples."""
    turn = bayes.rotations(Trial(0), 6, 1)
    X = Trial(0).draw(6, dtype=torch.float64).normal(bayes.EXAMPLES, 5)
    torch.testing.assert_close((turn @ X).mT @ (turn @ X), X.mT @ X, rtol=0, atol=1e-12)
    assert (turn @ X - X).abs().amax((1, 2)).min() > 0.1
