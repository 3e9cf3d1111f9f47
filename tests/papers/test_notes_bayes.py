"""Claims of the notes about Bayesian inference in context, on predictors with known statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.compare import _martingale
from inweights.lab.models import Learner
from inweights.lab.predictors import Averaging, KernelRidge, Predictor, Ridge
from inweights.lab.tasks import Linear
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import bayes, predictive

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
    result, judged = verdict("note-sufficient")
    assert result is wanted, judged


def test_rotated_contexts_have_the_same_statistics() -> None:
    """float64, 1e-12; they are other examples."""
    turn = bayes.rotations(Trial(0), 6, 1)
    X = Trial(0).draw(6, dtype=torch.float64).normal(bayes.EXAMPLES, 5)
    torch.testing.assert_close((turn @ X).mT @ (turn @ X), X.mT @ X, rtol=0, atol=1e-12)
    assert (turn @ X - X).abs().amax((1, 2)).min() > 0.1


class Exactly(Learner):
    """Bayes' rule, with a variance that may be too small, in the place of a decoder with two outputs."""

    def __init__(self, wrong: float = 1.0, *, constant: bool = False) -> None:
        super().__init__()
        self.wrong, self.constant = wrong, constant

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        mean, variance = predictive.EXACT.predict_prefixes(xs, ys[..., 0]), predictive.EXACT.predict_variance(xs)
        variance = variance.mean(0).expand_as(variance) if self.constant else self.wrong * variance
        noise = 1 + 1e-3 * torch.sin(1e3 * xs.sum((1, 2)))[:, None]  # a bit off, as a model is
        return torch.stack([mean, (variance * noise).log()], -1)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [(Exactly(), Verdict.PASS), (Exactly(0.3), Verdict.FAIL), (Exactly(constant=True), Verdict.FAIL)],
)
def test_the_predictive_distribution(
    model: Learner, wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too narrow by far, or of one width for all queries, is another distribution."""
    monkeypatch.setattr(predictive, "distribution_model", lambda trial: model)
    result, judged = verdict("note-predictive")
    assert result is wanted, judged


@pytest.mark.parametrize(("model", "wanted"), [(Exactly(0.3), Verdict.PASS), (Exactly(constant=True), Verdict.FAIL)])
def test_uncertainty_that_follows_the_examples(
    model: Learner, wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictive, "distribution_model", lambda trial: model)
    result, judged = verdict("note-uncertainty")
    assert result is wanted, judged


def test_ranks_of_labels_are_uniform_under_their_own_law() -> None:
    """4,000 of them: 0.87 / √4000 is the mean distance by chance."""
    labels = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    zero, one = torch.zeros_like(labels), torch.ones_like(labels)
    assert predictive.from_uniform(predictive.Law(zero, one).ranks(labels)) < 0.025
    assert predictive.from_uniform(predictive.Law(zero, 2 * one).ranks(labels)) > 0.05
    assert predictive.Law(zero, one).divergence(predictive.Law(zero, one)).abs().max() == 0
    result = predictive.Law(zero, one).divergence(predictive.Law(one, one))
    torch.testing.assert_close(result, 0.5 * one, rtol=0, atol=1e-12)  # float64


class Rule(Learner):
    """A uniform prior's rule for the next observation, or one that repeats the last."""

    def __init__(self, *, exchangeable: bool) -> None:
        super().__init__()
        self.exchangeable = exchangeable

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        before = torch.nn.functional.pad(ys[:, :-1], (1, 0))
        n = torch.arange(ys.shape[1])
        return (before.cumsum(1) + 1) / (n + 2) if self.exchangeable else 0.1 + 0.8 * before


def test_continuations(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_martingale, "REPLICATES", 100)
    monkeypatch.setattr(predictive, "sequence_model", lambda trial, *, exchangeable: Rule(exchangeable=exchangeable))
    result, judged = verdict("note-martingale", 4)
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(predictive, "sequence_model", lambda trial, *, exchangeable: Rule(exchangeable=False))
    assert verdict("note-martingale", 1)[0] is Verdict.FAIL


def test_small_trainings_learn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hundred steps; the rules of the two kinds of sequences differ."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 120)
    ones = torch.tensor([[1.0, 1, 1, 1, 1, 1, 0, 0]])
    answers = {
        e: predictive.sequence_model(Trial(0), exchangeable=e)(torch.ones(1, 8, 1), ones)[0] for e in (True, False)
    }
    assert answers[False][-1] < 0.4 < 0.5 < answers[True][-1]  # after a 0, and five ones before it
    model = predictive.distribution_model(Trial(0))
    sample = Linear(dims=2, noise=0.5).sample(Trial(0).draw(512), 9)
    own, exact = predictive.laws(model, sample)
    before = predictive.Law(torch.zeros_like(own.mean), torch.full_like(own.mean, 2.25))
    assert exact.divergence(own).mean() < 0.9 * exact.divergence(before).mean()
