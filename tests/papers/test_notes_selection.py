"""Claims of the notes about algorithm selection, conferences, and new tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.tasks import Linear, Relu, Sample
from inweights.ledger import Trial, Verdict
from inweights.papers.notes import selection as notes_selection
from inweights.papers.notes import transfer as notes_transfer

Judge = Callable[..., tuple[Verdict, object]]


class Answering(Learner):
    """An algorithm in a model's place; a bit off, as a model is."""

    def __init__(self, answers: notes_selection.Answers, penalty: float) -> None:
        super().__init__()
        self.answers, self.penalty = answers, penalty

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return 0.95 * self.answers(Sample(xs, ys, {}), self.penalty).unsqueeze(-1)


@pytest.mark.parametrize("robust", [True, False])
def test_a_robust_estimator_is_distinguished_from_ridge(
    robust: bool, monkeypatch: pytest.MonkeyPatch, stand_in: Callable[..., None], verdict: Judge
) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 200)
    noisy = Answering(notes_selection.huber(2.0) if robust else notes_selection.linear, 4.0)
    stand_in({"ridge-2": lambda trial: noisy, "ridge-0.5": lambda trial: Answering(notes_selection.linear, 0.25)})
    assert verdict("note-robust")[0] is (Verdict.PASS if robust else Verdict.FAIL)


@pytest.mark.parametrize("name", ["kernel", "linear", "network"])
def test_a_kernel_is_distinguished_from_a_line_and_from_a_network(
    name: str, monkeypatch: pytest.MonkeyPatch, stand_in: Callable[..., None], verdict: Judge
) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 30)
    curved = Answering(getattr(notes_selection, name), 0.1)
    stand_in({"relu-5": lambda trial: curved, "depth-2": lambda trial: Answering(notes_selection.linear, 0.01)})
    assert verdict("note-kernel", 5)[0] is (Verdict.PASS if name == "kernel" else Verdict.FAIL)


def test_the_kernel_of_wide_networks_is_their_covariance() -> None:
    # Then it is Bayes' answer for them, and no other penalty or kernel does better on the mean.
    sample = Relu(dims=2, width=2000).sample(Trial(0).draw(500, dtype=torch.float64), 21)
    truth = sample.ys[:, -1]
    errors = [
        float((answers(sample, p) - truth).square().mean())
        for answers, p in (
            (notes_selection.wide_networks, 1e-9),
            (notes_selection.wide_networks, 0.3),
            (notes_selection.kernel, 1e-3),
            (notes_selection.linear, 1e-3),
        )
    ]
    assert errors[0] == min(errors)
    # As sure of a point as of an example that is the same point.
    again = Sample(torch.cat([sample.xs, sample.xs[:, :1]], 1), torch.cat([sample.ys, sample.ys[:, :1]], 1), {})
    assert torch.allclose(notes_selection.wide_networks(again, 1e-9), sample.ys[:, 0], atol=1e-3)


def test_hubers_regression_bears_outliers_and_is_ridge_without_them() -> None:
    task = Linear(dims=5, noise=0.1)
    sample = task.sample(Trial(0).draw(50, dtype=torch.float64), 31)
    truth, ridge = sample.hidden["clean"][:, -1], notes_selection.linear(sample, 0.01)
    # Nothing lies beyond so wide a bend.
    assert torch.allclose(notes_selection.huber(100.0)(sample, 0.01), ridge, atol=1e-8)  # float64
    ys = sample.ys.clone()
    ys[:, 0] = 1000
    spoiled = sample._replace(ys=ys)
    misses = [
        (a - truth).abs().mean()
        for a in (notes_selection.huber(0.1)(spoiled, 0.01), notes_selection.linear(spoiled, 0.01))
    ]
    assert misses[0] < 0.1 < 10 < misses[1]


def test_the_right_years_would_pass(monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    right = [(paper, 2023 if paper == "Bai et al." else year, page) for paper, year, page in notes_selection.REFERENCES]
    monkeypatch.setattr(notes_selection, "REFERENCES", right)
    assert verdict("note-venue", 1)[0] is Verdict.PASS


def test_exponents_are_those_of_powers() -> None:
    fewer = torch.tensor(notes_transfer.FEWER, dtype=torch.float64)
    assert notes_transfer.exponent(7 * fewer**-0.7) == pytest.approx(-0.7)


def test_the_risk_on_new_tasks(monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    """The rate of the bound holds, and not where tasks are copies."""
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 5_000)
    monkeypatch.setattr(notes_transfer, "LENGTHS", (5, 10, 20))
    monkeypatch.setattr(notes_transfer, "FEWER", (8, 16, 32, 64))
    assert verdict("note-transfer-risk")[0] is Verdict.PASS
    whole = notes_transfer.risks
    monkeypatch.setattr(notes_transfer, "risks", lambda trial, counts, different=8: whole(trial, counts, different=8))
    assert verdict("note-transfer-risk", 2)[0] is Verdict.FAIL


def test_self_attention_that_was_trained_reaches_its_optimum() -> None:
    # Zhang et al. 2024 for x and w of unit covariance: the least risk of one layer after n examples.
    d, n = notes_transfer.DIMS, torch.tensor(notes_transfer.LENGTHS, dtype=torch.float64)
    noise = notes_transfer.NOISE**2
    gain = 1 / ((n + 1) / n + (d + noise) / n)
    _, least = notes_transfer.risks(Trial(0), (8,))
    assert torch.allclose(least, d * (1 - gain), rtol=0.05)  # 20,000 prompts
