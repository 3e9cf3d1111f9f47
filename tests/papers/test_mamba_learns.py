"""State-space models beside transformers: orders of errors that are known, in place of trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner
from inweights.ledger import Trial, UnmetError, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.mamba_learns import claims as park

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""


class Off(Learner):
    """The labels with an error: a share of them is replaced by their negatives."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        random = torch.Generator().manual_seed(0)
        wrong = torch.rand(ys.shape, generator=random) < self.share
        return torch.where(wrong, -ys, ys)


def world(monkeypatch: pytest.MonkeyPatch, shares: dict[str, dict[str, float]]) -> None:
    """Models that have these shares of wrong labels, by task and name."""
    monkeypatch.setattr(park, "learner", lambda trial, name, task, steps: Off(shares[task][name]))


AS_STATED = {
    "retrieval": {"transformer": 0.01, "mamba": 0.3, "hybrid": 0.012},
    "parity": {"transformer": 0.5, "mamba": 0.1, "hybrid": 0.1, "lstm": 0.49, "wider transformer": 0.49},
    "linear": {"transformer": 0.05, "mamba": 0.055},
    "outliers": {"transformer": 0.1, "mamba": 0.03},
}
OTHERWISE: dict[str, dict[str, dict[str, float]]] = {
    "park-retrieval": {"retrieval": {"mamba": 0.02}},
    "park-parity": {"parity": {"mamba": 0.49}},
    "park-regression": {"linear": {"transformer": 0.01}},
    "park-outliers": {"outliers": {"mamba": 0.12}},
    "park-hybrid": {"parity": {"hybrid": 0.4}},
}


@pytest.mark.parametrize("id", OTHERWISE)
def test_the_orders_of_the_paper_pass_and_others_fail(id: str, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    world(monkeypatch, AS_STATED)
    result, judged = verdict(id, 3, FIRST)
    assert result is Verdict.PASS, judged
    world(monkeypatch, {task: line | OTHERWISE[id].get(task, {}) for task, line in AS_STATED.items()})
    result, judged = verdict(id, 3, FIRST)
    assert result is Verdict.FAIL, judged


def test_an_lstm_that_does_as_well_is_another_explanation(monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    world(monkeypatch, AS_STATED | {"parity": AS_STATED["parity"] | {"lstm": 0.1}})
    assert verdict("park-parity", 3, FIRST)[0] is Verdict.HOLDS_NOT_DIAGNOSTIC


def test_a_hybrid_proves_nothing_where_one_model_does_everything(
    monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    world(monkeypatch, AS_STATED | {"parity": {"transformer": 0.1, "mamba": 0.1, "hybrid": 0.1}})
    assert verdict("park-hybrid", 3, FIRST)[0] is Verdict.INCONCLUSIVE


def test_models_that_have_not_learned_are_not_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, AS_STATED | {"linear": {"transformer": 0.5, "mamba": 0.5}})
    with pytest.raises(UnmetError):
        park.regression(Trial(FIRST))
    world(monkeypatch, AS_STATED | {"outliers": {"transformer": 0.1, "mamba": 0.5}})
    with pytest.raises(UnmetError):
        park.outliers(Trial(FIRST))


@pytest.mark.parametrize(
    ("task", "share", "wanted"), [("parity", 0.5, 1.0), ("linear", 0.25, 1.0), ("retrieval", 0, 0)]
)
def test_errors_have_their_units(task: str, share: float, wanted: float) -> None:
    # Half of the labels wrong is chance; a label with the wrong sign has four times the error of answering 0.
    assert park.error(Trial(FIRST), Off(share), task) == pytest.approx(wanted, abs=0.15)


def test_models_are_about_equally_large(monkeypatch: pytest.MonkeyPatch) -> None:
    from inweights.papers import _trained_now

    sizes = {}

    def one_step(trial: Trial, task: dict[str, Any], model: dict[str, Any], **settings: Any) -> Learner:
        return _trained_now.trained_now(trial, task, model, **settings | {"steps": 1})

    monkeypatch.setattr(park, "trained_now", one_step)
    for name in park.MODELS:
        sizes[name] = sum(p.numel() for p in park.learner(Trial(FIRST), name, "linear").parameters())
    assert min(sizes.values()) > 0.7 * max(sizes.values()), sizes
