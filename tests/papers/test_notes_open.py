"""Claims of the notes about heads, limits, composition and long contexts: they hold, and can fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.lab.models import LSA, Learner, LSAModel
from inweights.lab.predictors import OLS, KernelRidge, Predictor, Ridge
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import capacity, composed, limits

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""
Stand = Callable[..., None]


class Answering(Learner):
    """An algorithm in a model's place, at all points."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return self.predictor.predict_prefixes(xs, ys)


@pytest.mark.parametrize("id", ["note-heads", "note-limit-linear", "note-fold-constant"])
def test_equalities_hold(id: str, exact_verdict: Judge) -> None:
    """Two seeds, float64; tolerance and control are those of the criteria."""
    result, judged = exact_verdict(id)
    assert result is Verdict.PASS, judged


def test_a_single_head_suffices_for_one_algorithm() -> None:
    # The control would be no control if both methods were the same up to a factor.
    rates, same = torch.tensor([0.5, 0.2]).double(), torch.eye(capacity.DIMS).double().expand(2, -1, -1)
    xs, ys = torch.randn(3, 9, capacity.DIMS).double(), torch.randn(3, 9, 2).double()
    one, two = (make(rates, same)(xs, ys) for make in (capacity.best_single_head, capacity.two_algorithms))
    torch.testing.assert_close(one, two)
    other = torch.stack([same[0], torch.diag(torch.arange(1.0, capacity.DIMS + 1)).double()])
    one, two = (make(rates, other)(xs, ys) for make in (capacity.best_single_head, capacity.two_algorithms))
    assert (one - two).abs().max() > 1e-2


def test_a_product_of_two_coordinates_would_be_seen() -> None:
    class Product(LSAModel):
        def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
            return xs[:, -1:, :2].prod(-1)

    xs, ys = torch.randn(4, 6, limits.DIMS).double().sign(), torch.randn(4, 6).double()
    result = limits.correlation(Product(LSA(), limits.DIMS, 1), xs, ys)
    torch.testing.assert_close(result, torch.ones(4).double())


class Squares(OLS):
    """Least squares on the squares of the inputs."""

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        both = torch.cat([xs, xs.square()], -1)
        return super().predict_prefixes(both, ys, queries)


def test_a_learner_of_both_classes_refutes_the_limit(stand_in: Stand, verdict: Judge) -> None:
    stand_in({"depth-8": lambda trial: Answering(OLS())})
    assert verdict("note-limit-class", 3, FIRST)[0] is Verdict.PASS
    stand_in({"depth-8": lambda trial: Answering(Squares())})
    assert verdict("note-limit-class", 3, FIRST)[0] is Verdict.FAIL


class Own(OLS):
    """Least squares on every second example: the query's own, among two tasks that alternate."""

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        if xs.shape[1] != composed.EXAMPLES + 1:
            return Ridge(penalty=0.05).predict_prefixes(xs, ys)
        rows = [*range(0, xs.shape[1] - 1, 2), xs.shape[1] - 1]
        answers = torch.zeros_like(ys)
        answers[:, -1] = Ridge(penalty=0.05).predict_prefixes(xs[:, rows], ys[:, rows])[:, -1]
        return answers


def test_a_learner_that_takes_tasks_apart_refutes_it(stand_in: Stand, verdict: Judge) -> None:
    stand_in({"depth-8": lambda trial: Answering(Ridge(penalty=1e-3))})
    result, judged = verdict("note-two-tasks", 3, FIRST)
    assert result is Verdict.PASS, judged
    stand_in({"depth-8": lambda trial: Answering(Own())})
    assert verdict("note-two-tasks", 3, FIRST)[0] is Verdict.FAIL


def test_a_chain_needs_both_parts(stand_in: Stand, verdict: Judge) -> None:
    f, g = Answering(Ridge(penalty=1e-3)), Answering(KernelRidge(penalty=1e-3))
    stand_in({"depth-8": lambda trial: f, "sine": lambda trial: g})
    result, judged = verdict("note-composition", 3, FIRST)
    assert result is Verdict.PASS, judged
    stand_in({"depth-8": lambda trial: f, "sine": lambda trial: f})  # no learner of waves
    assert verdict("note-composition", 3, FIRST)[0] is Verdict.FAIL


def test_parts_of_a_context(stand_in: Stand, verdict: Judge) -> None:
    stand_in({"ridge-1": lambda trial: Answering(Ridge(penalty=1.0))})
    result, judged = verdict("note-chunks", 3, FIRST)
    assert result is Verdict.PASS, judged
    stand_in({"ridge-1": lambda trial: Answering(Ridge(penalty=200.0))})  # biased: an average does not help
    assert verdict("note-chunks", 3, FIRST)[0] is Verdict.FAIL


def test_the_sizes_are_those_of_the_models(untrained: Callable[[str], Callable[[Trial], Learner]]) -> None:
    model = untrained("depth-8")(Trial(0))
    assert model.max_points == composed.EXAMPLES + 1
