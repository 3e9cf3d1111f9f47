"""The note's rule beside a model that follows it, and beside one that uses one algorithm for all contexts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.lab.predictors import OLS, Choice, KernelRidge, Predictor
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import followed
from inweights.papers.notes.selection import last

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


class Nearly(Predictor):
    """A predictor that is a bit off, as a model is."""

    def __init__(self, exact: Predictor) -> None:
        self.exact = exact

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        return self.exact.predict_prefixes(xs, ys, queries) + 0.1 * torch.sin(1e3 * xs.sum(-1))


@pytest.mark.parametrize(
    ("model", "follows"),
    [(Choice(noise=0.3, penalty=0.3), True), (OLS(), False), (KernelRidge(penalty=0.1, scale=0.5), False)],
)
def test_who_follows_the_rule(model: Predictor, follows: bool, verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rule does, and one algorithm for all contexts does not."""
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 128)
    monkeypatch.setattr(followed, "FITTED", {"noise": (0.15, 0.3), "linearity": (1.0,), "penalty": (0.1,)})
    monkeypatch.setattr(followed, "one_model", lambda trial: Nearly(model))
    result, judged = verdict("note-select-trained")
    assert (judged["nearer"].value.value < 0.5) is follows, judged
    assert follows or result is not Verdict.PASS, judged


def test_the_fitted_rule_has_the_least_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the contexts that it is fitted to; another rule is worse."""
    monkeypatch.setattr(followed, "FITTED", {"noise": (0.3,), "linearity": (1.0,), "penalty": (0.1, 30.0)})
    sample = followed.shown(Trial(900), 32, 0)
    best = followed.fitted_rule(sample)
    errors = [followed.error(last(rule, sample), sample) for rule in (best, Choice(noise=0.3, penalty=30.0))]
    assert best.penalty == 0.1
    assert errors[0] < errors[1]
