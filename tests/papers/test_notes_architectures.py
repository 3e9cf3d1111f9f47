"""Claims about other architectures and about statistics in states, with models of known errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.predictors import OLS
from inweights.lab.training import build
from inweights.ledger import Trial, UnmetError, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.gradient_descent.outputs import Step
from inweights.papers.notes import architectures, statistics
from inweights.papers.statisticians import attention

Stand = Callable[[Mapping[str, Callable[[Trial], Any]]], None]
Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900


class Off(Learner):
    """The labels, a share of them negated: a squared error, or a share of wrong signs."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        wrong = torch.rand(ys.shape, generator=torch.Generator().manual_seed(0)) < self.share
        return torch.where(wrong, -ys, ys)


def off(shares: dict[str, float]) -> dict[str, Callable[[Trial], Learner]]:
    return {name: lambda trial, share=share: Off(share) for name, share in shares.items()}  # type: ignore[misc]


RETRIEVAL = {"mamba": 0.1, "lstm": 0.2, "griffin": 0.001, "hybrid": 0.002, "decoder": 0.001, "relu-encoder": 0.01}
PARITY = {"mamba": 0.02, "lstm": 0.49, "griffin": 0.03, "hybrid": 0.1, "decoder": 0.5, "relu-encoder": 0.49}
REGRESSION = {"mamba-5": 0.01, "hybrid-5": 0.005, "griffin-5": 0.008, "lstm-5": 0.1, "decoder-5": 0.004}


def named(task: str, shares: dict[str, float]) -> dict[str, float]:
    return {f"{task}-{name}": share for name, share in shares.items()}


BOTH = named("parity", PARITY) | named("retrieval", RETRIEVAL)


@pytest.mark.parametrize(
    ("id", "shares", "other"),
    [
        ("note-retrieval-order", named("retrieval", RETRIEVAL), {"retrieval-griffin": 0.2}),
        ("note-retrieval-order", named("retrieval", RETRIEVAL), {"retrieval-lstm": 0.001}),
        ("note-parity-order", BOTH, {"parity-hybrid": 0.5}),
        ("note-recurrent-regression", REGRESSION, {"mamba-5": 0.1}),
        ("note-regression-order", REGRESSION, {"lstm-5": 0.01}),
    ],
)
def test_orders_of_architectures(
    id: str,
    shares: dict[str, float],
    other: dict[str, float],
    stand_in: Stand,
    verdict: Judge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in(off(shares))
    found, judged = verdict(id, 3, FIRST)
    assert found is Verdict.PASS, judged
    stand_in(off(shares | other))
    monkeypatch.setattr(architectures, "build", lambda recipe: Off(0.5))  # untrained models, which the first run has
    found, judged = verdict(id, 3, FIRST)
    assert found is Verdict.FAIL, judged


def test_an_lstm_that_learns_parities_is_another_explanation(stand_in: Stand, verdict: Judge) -> None:
    stand_in(off(BOTH | {"parity-lstm": 0.01}))
    assert verdict("note-parity-order", 3, FIRST)[0] is Verdict.HOLDS_NOT_DIAGNOSTIC


def test_a_decoder_that_has_not_learned_is_no_reference(stand_in: Stand) -> None:
    stand_in(off(named("retrieval", RETRIEVAL | {"decoder": 0.4})))
    with pytest.raises(UnmetError, match="decoder"):
        architectures.retrieval_order(Trial(FIRST))


class LeastSquares(Learner):
    """Least squares with some error, for the last point, as an encoder."""

    causal = False

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = off

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return (1 - self.off) * OLS().predict_prefixes(xs, ys)[:, -1:]


def test_an_encoder_that_is_least_squares(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "encoder", lambda trial: LeastSquares(0.05))
    found, judged = verdict("bai-relu-attention", 3, FIRST)
    assert found is Verdict.PASS, judged
    monkeypatch.setattr(attention, "encoder", lambda trial: LeastSquares(0.5))
    assert verdict("bai-relu-attention", 3, FIRST)[0] is Verdict.FAIL


def test_the_encoder_learns_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 60 if quick == 300 else 512)
    measured = attention.relu_attention(Trial(FIRST)).quantities["difference"]
    assert measured[0] < 0.8 * measured[1]  # type: ignore[operator]


def test_a_step_on_several_outputs(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is a bit off passes; one at half the rate fails; components in another order are the control."""
    for eta, wanted in ((0.6, Verdict.PASS), (0.3, Verdict.FAIL)):
        monkeypatch.setattr(
            "inweights.papers.gradient_descent.outputs.trained", lambda trial, name, eta=eta: Step(1.001 * eta)
        )
        found, judged = verdict("oswald-outputs", 3, FIRST)
        assert found is wanted, judged


def test_the_step_is_that_of_autograd() -> None:
    """float64, 1e-12; without the exchange of components."""
    draw = Trial(FIRST).draw(5, dtype=torch.float64)
    xs, ys = draw.normal(7, 4), draw.normal(7, 3)
    W = torch.zeros(5, 3, 4, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad((xs[:, :-1] @ W.mT - ys[:, :-1]).square().sum() / 2, W)
    wanted = xs[:, -1:] @ (-0.1 * slope).mT
    torch.testing.assert_close(Step(0.1)(xs, ys), wanted, rtol=0, atol=1e-12)
    assert (Step(0.1, turned=True)(xs, ys) - wanted).abs().max() > 1e-2


def test_what_is_planted_is_read_and_what_is_not_is_not() -> None:
    """A code of Xᵀy in noise; statistics that are not in the features have R² near 0."""
    sample = statistics.Linear(dims=5, noise=0.5).sample(Trial(FIRST).draw(2048), 12)
    wanted = statistics.statistics(sample, 10)
    turn = torch.randn(5, 30, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(2048, 30, generator=torch.Generator().manual_seed(1))
    features = wanted["moments"] @ turn + 0.1 * noise
    assert statistics.explained(features, wanted["moments"]) > 0.95
    assert statistics.explained(features, wanted["gram"]) < 0.05
    X, y = sample.xs[0, :10], sample.ys[0, :10]
    torch.testing.assert_close(wanted["moments"][0], X.T @ y / 10, rtol=1e-4, atol=1e-5)
    full = (X.T @ X / 10)[tuple(torch.triu_indices(5, 5))]
    torch.testing.assert_close(wanted["gram"][0], full, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("id", ["note-statistics", "note-statistics-state"])
def test_states_without_training_hold_too_little(id: str, stand_in: Stand, verdict: Judge) -> None:
    stand_in({name: lambda trial, name=name: build(trial.recipe(name)) for name in ("ridge-0.5", "lstm-5")})  # type: ignore[misc]
    found, judged = verdict(id, 3, FIRST)
    assert found is Verdict.FAIL, judged


def test_statistics_that_are_in_the_state_pass(
    stand_in: Stand, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state(model: Learner, xs: Tensor, ys: Tensor) -> Tensor:
        products = (xs.mT @ xs).flatten(1), (xs.mT @ ys.unsqueeze(-1)).squeeze(-1)
        known = torch.cat(products, 1)
        return known if model.training is False else torch.randn_like(known)

    monkeypatch.setattr(statistics, "after_examples", state)
    stand_in({"lstm-5": lambda trial: build(trial.recipe("lstm-5")).eval()})
    found, judged = verdict("note-statistics-state", 3, FIRST)
    assert found is Verdict.PASS, judged
