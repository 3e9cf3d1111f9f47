"""The note's selection by noise and linearity: the predictor, and the claim about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.lab.predictors import Choice, KernelRidge, Ridge
from inweights.lab.predictors.choice import left_out
from inweights.lab.tasks import Linear
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import choice

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def test_the_rule_selects_and_a_blind_one_does_not(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    _, judged = verdict("note-select", 5)
    assert judged["against_one"].verdict is Verdict.PASS, judged
    assert judged["right"].value.value > 0.85, judged

    class Blind(Choice):
        """Takes everything for linear with much noise."""

        def choose(self, xs: Tensor, ys: Tensor) -> Tensor:
            return torch.ones_like(ys, dtype=torch.long)

    monkeypatch.setattr(choice, "Choice", Blind)
    assert verdict("note-select")[0] is not Verdict.PASS


def test_errors_on_examples_left_out_are_those_of_separate_fits() -> None:
    """float64, 1e-9; not those of the fit to all examples."""
    sample = Linear(dims=3, noise=0.5).sample(Trial(0).draw(2, dtype=torch.float64), 8)
    X, y = sample.xs, sample.ys
    result = left_out(X @ X.mT, y, 0.25)
    errors = []
    for i in range(8):
        rest = [j for j in range(8) if j != i]
        order = [*rest, i]
        answer = Ridge(penalty=0.25).predict_prefixes(X[:, order], y[:, order])[:, -1]
        errors.append((answer - y[:, i]).square())
    torch.testing.assert_close(result, torch.stack(errors).mean(0), rtol=0, atol=1e-9)
    fitted = Ridge(penalty=0.25).predict_prefixes(torch.cat([X, X[:, :1]], 1), torch.cat([y, y[:, :1]], 1))[:, -1]
    assert ((fitted - y[:, 0]).square() - result).abs().max() > 1e-3


def test_the_selected_algorithm_predicts() -> None:
    sample = Linear(dims=3, noise=1.0).sample(Trial(0).draw(32), 31)
    rule = Choice()
    chosen = rule.choose(sample.xs, sample.ys)[:, -1]
    answers = rule.predict_prefixes(sample.xs, sample.ys)[:, -1]
    ridge, kernel = (
        p.predict_prefixes(sample.xs, sample.ys)[:, -1]
        for p in (Ridge(penalty=0.25), KernelRidge(penalty=0.25, scale=6**0.5))
    )
    assert (chosen == 1).sum() > 20
    assert torch.equal(answers[chosen == 1], ridge[chosen == 1])
    assert torch.equal(answers[chosen == 2], kernel[chosen == 2])
