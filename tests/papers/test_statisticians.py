"""Transformers with written weights (Bai et al.), and each of them with a mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.predictors import GD, LogisticPredictor, Predictor, PreTest, Ridge, Validation, Zero
from inweights.lab.tasks import Linear, MixedNoise, Sample, Sign
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.statisticians import _written as written
from inweights.papers.statisticians import algorithms, selection, trained

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
EXACT = ["bai-ridge", "bai-lasso", "bai-accumulation", "bai-glm", "bai-validation", "bai-pretest"]


@pytest.mark.parametrize("id", EXACT)
def test_the_constructions_hold(id: str, exact_verdict: Judge) -> None:
    """Two seeds, float64; tolerances and controls are those of the criteria."""
    result, judged = exact_verdict(id)
    assert result is Verdict.PASS, judged


@pytest.mark.parametrize(
    ("id", "name", "wrong"),
    [
        ("bai-ridge", "penalty_head", lambda at, size: written.penalty_head(at, 1.001 * size)),
        ("bai-lasso", "soft_threshold", lambda at, size: written.soft_threshold(at, 0.5 * size)),
        ("bai-accumulation", "slopes", lambda X, derivative, w: 1.3 * WHOLE(X, derivative, w)),  # beyond the rate
        ("bai-glm", "logistic_heads", lambda at, n, rate, kinks: HEADS(at, n, rate, kinks[::8])),  # fewer kinks
    ],
)
def test_a_mistake_in_an_algorithm_fails(
    id: str, name: str, wrong: Callable[..., Any], verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algorithms, name, wrong)
    result, judged = verdict(id, 1)
    assert result is Verdict.FAIL, judged


WHOLE, HEADS = algorithms.slopes, algorithms.logistic_heads


def test_a_selection_with_a_mistake_fails(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    validating, by_test = selection.validating, selection.by_test
    # Too wide a margin keeps algorithms that are much worse; bumps that wide take real labels for classes.
    wide = {1.0: 3000, -1.0: 1}  # the control stays as it is
    monkeypatch.setattr(
        selection, "validating", lambda base, m, half, sign: validating(base, wide[sign] * m, half, sign)
    )
    assert verdict("bai-validation", 1)[0] is Verdict.FAIL
    monkeypatch.setattr(selection, "by_test", lambda sample, heads=6: by_test(sample, heads, width=5.0))
    assert verdict("bai-pretest", 1)[0] is Verdict.FAIL


def test_a_layer_is_a_step_of_gradient_descent() -> None:
    """float64, 1e-9; one layer more is visible."""
    sample = Linear(dims=3).sample(Trial(0).draw(4, dtype=torch.float64), 9)
    at = written.Places(3, {"w": 3})
    layer = written.Layer(written.squared_heads(at, 8, 0.2))
    wanted = GD(rate=0.2, steps=4).weights(sample.xs, sample.ys)[:, -1]
    for layers, same in ((4, True), (5, False)):
        result = written.run([layer] * layers, at.tokens(sample.xs, sample.ys))[:, -1] @ at["w"].mT
        assert torch.allclose(result, wanted, rtol=0, atol=1e-9) is same
    h = at.tokens(sample.xs, sample.ys) + torch.randn(3, dtype=torch.float64) @ at["w"]
    read = written.run([written.Layer(written.read_heads(at, 8, "w", "answer"))], h)
    product = ((h[:, -1] @ at["w"].mT) * sample.xs[:, -1]).sum(-1)
    torch.testing.assert_close(read[:, -1] @ at["answer"][0], product, rtol=0, atol=1e-9)


def test_a_soft_threshold_moves_towards_zero_and_not_beyond() -> None:
    at = written.Places(1, {"w": 3})
    w = torch.tensor([-2.0, 0.1, 0.7], dtype=torch.float64)
    h = (at["one"] + w @ at["w"]).unsqueeze(0)
    result = written.Layer(mlp=written.soft_threshold(at, 0.5))(h) @ at["w"].mT
    torch.testing.assert_close(result, torch.tensor([[[-1.5, 0.0, 0.2]]], dtype=torch.float64), rtol=0, atol=1e-12)


def test_algorithms_within_the_margin_are_mixed() -> None:
    """Shares add up to 1: weights that are all the same stay the same, and none are lost (float64, 1e-9)."""
    sample = Linear(dims=2).sample(Trial(0).draw(3, dtype=torch.float64), 11)
    base = torch.ones(3, 4, 2, dtype=torch.float64)
    answer = selection.validating(base, 0.1, 5, 1.0)(sample.xs, sample.ys)[:, 0]
    torch.testing.assert_close(answer, sample.xs[:, -1].sum(-1), rtol=0, atol=1e-9)
    base = base + 0.01 * torch.randn(base.shape, generator=torch.Generator().manual_seed(0), dtype=base.dtype)
    answer = selection.validating(base, 1.0, 5, 1.0)(sample.xs, sample.ys)[:, 0]
    each = (base @ sample.xs[:, -1, :, None]).squeeze(-1)
    assert ((each.amin(1) < answer) & (answer < each.amax(1))).all()


def test_labels_that_are_mostly_no_classes_are_numbers() -> None:
    """12 of 20 labels are 1.5 and −1.5: less than half of them are classes."""
    sample = Sign(dims=5).sample(Trial(0).draw(8, dtype=torch.float64), 21)
    ys = sample.ys.clone()
    ys[:, :12] *= 1.5
    mixed = sample._replace(ys=ys)
    squares = (selection.OLS().weights(mixed.xs, ys)[:, -1] * mixed.xs[:, -1]).sum(-1)
    torch.testing.assert_close(selection.by_test(mixed), squares, rtol=0, atol=1e-8)  # float64


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LENGTHS", (20, 40, 80))


@pytest.mark.usefixtures("fewer")
def test_the_rate_of_selection(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    result, judged = verdict("bai-near-bayes")
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(selection, "Validation", lambda among, share: _Early(among=among))
    assert verdict("bai-near-bayes")[0] is Verdict.FAIL


class _Early(Validation):
    """Fitted to the first ten examples."""

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        part = Validation(among=self.among, share=10 / (xs.shape[1] - 1))
        return part.predict_prefixes(xs, ys, queries)


def test_the_posterior_mean_is_better_than_each_ridge_regression() -> None:
    task = MixedNoise(dims=5, levels=(0.1, 1.0))
    sample = task.sample(Trial(0).draw(2000, dtype=torch.float64), 11)
    truth = sample.hidden["clean"][:, -1]

    def error(answers: Tensor) -> float:
        return float((answers - truth).square().mean())

    ridges = [Ridge(penalty=5 * s**2).predict_prefixes(sample.xs, sample.ys)[:, -1] for s in task.levels]
    assert error(selection.bayes(sample, task.levels)) < 0.95 * min(map(error, ridges))
    torch.testing.assert_close(selection.bayes(sample, (0.1,)), ridges[0], rtol=0, atol=1e-10)


def test_the_papers_two_errors(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 8192)
    result, judged = verdict("bai-one-penalty", 5)
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(selection, "Ridge", lambda penalty: Ridge(penalty=4 * penalty))
    assert verdict("bai-one-penalty")[0] is Verdict.FAIL


class _Knowing(Learner):
    """Ridge regression with the penalty of one noise, or of that which the examples are more likely under."""

    causal = False

    def __init__(self, levels: tuple[float, ...]) -> None:
        super().__init__()
        self.levels = levels

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return selection.bayes(Sample(xs.double(), ys.double(), {}), self.levels).float().unsqueeze(1)


@pytest.mark.parametrize(("levels", "wanted"), [((0.1, 0.25, 0.5, 1.0), Verdict.PASS), ((0.1,), Verdict.FAIL)])
def test_both_noises_at_once(
    levels: tuple[float, ...], wanted: Verdict, stand_in: Callable[..., None], verdict: Judge
) -> None:
    stand_in({"mixed-noise-short": lambda _: _Knowing(levels)})
    result, judged = verdict("bai-both-noises")
    assert result is wanted, judged


@pytest.mark.parametrize(
    ("model", "wanted"), [(PreTest(), Verdict.PASS), (LogisticPredictor(), Verdict.FAIL), (Zero(), Verdict.FAIL)]
)
def test_regression_and_classification(
    model: Predictor, wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both at once; classification alone; nothing."""
    monkeypatch.setattr(trained, "both", lambda trial: model)
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 1024)
    result, judged = verdict("bai-two-losses")
    assert result is wanted, judged


def test_a_training_with_two_losses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hundred steps are better than always answering 0, and than guessing."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 150)
    model = trained.both(Trial(0))
    result = {}
    for kind, task in trained.TASKS.items():
        sample = task.sample(Trial(0).draw(1024), trained.POINTS)
        result[kind] = trained.errors(sample, model.predict_prefixes(sample.xs, sample.ys)[:, -1], kind)
    assert result["regression"] < 2.0  # 2.25 for 0
    assert result["classification"] < 0.4
