"""The measurements of Garg et al.'s claims, on algorithms in the place of trained models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.lab import zoo
from inweights.lab.predictors import (
    OLS,
    Averaging,
    Lasso,
    LinearPredictor,
    Nearest,
    Network,
    RegressionTree,
    Ridge,
    Zero,
)
from inweights.lab.tasks import Linear, Sample
from inweights.ledger import CLAIMS, Trial, Verdict, criteria, judge
from inweights.ledger._cache import Kept
from inweights.papers.what_can import claims as what_can
from inweights.papers.what_can import rivals
from inweights.papers.what_can._boosted import boosted


@pytest.fixture(autouse=True)
def _no_large_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder of the paper's size is slow, and no verdict depends on it; its reported numbers have a separate
    test."""
    monkeypatch.setattr(zoo, "seeded", lambda name, seed: None)


@pytest.fixture(autouse=True)
def _quick_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of few steps, and a greedy tree for XGBoost, which may not be installed: what is tested here is how
    they are compared with."""

    def tree(sample: Sample, after: Sequence[int]) -> Tensor:
        return RegressionTree(depth=3, signs=True).predict_prefixes(sample.xs, sample.ys)[:, after].double()

    monkeypatch.setattr(rivals, "boosted", tree)
    monkeypatch.setattr(rivals, "Network", lambda **settings: Network(steps=30))


@dataclass(frozen=True)
class Instead(Trial):
    """A trial in which these take the place of trained models."""

    given: Mapping[str, Any] = field(default_factory=dict)

    def trained(self, name: str) -> Any:
        return self.given[name]


MANY = "garg-sparse", "garg-orthants", "garg-tree"
"""Where three trials leave intervals that are too wide for a verdict."""


def verdict(id: str, given: dict[str, Any]) -> Verdict:
    seeds = range(5 if id in MANY else 3)
    quick = id != "garg-sparse"  # where least squares, its control, is close to the bound on few prompts
    trials = [Instead(seed, quick, given=given) for seed in seeds]
    result = [Kept.of(CLAIMS[id].measure(trial), "found", "", 0.0).quantities for trial in trials]
    return judge(
        criteria()[id], {name: ([f[name][0] for f in result], [f[name][1] or [] for f in result]) for name in result[0]}
    )[0]


class Told:
    """Predictions that are correct except for a part of each label."""

    def __init__(self, off: float) -> None:
        self.off = off

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        return (1 - self.off) * ys


@pytest.mark.parametrize(
    ("id", "good", "bad"),
    [
        ("garg-linear", {"depth-8": OLS()}, {"depth-8": Zero()}),
        ("garg-sparse", {"sparse-8": Lasso(penalty=0.01)}, {"sparse-8": Ridge(penalty=1.0)}),
        ("garg-tree", {"tree-3": Told(0.1)}, {"tree-3": Zero()}),
        ("garg-relu", {"relu-5": Network(steps=30)}, {"relu-5": Told(0.1)}),
        ("garg-orthants", {"depth-8": OLS()}, {"depth-8": Nearest()}),
        (
            "garg-double-descent",
            {"depth-8": Ridge(penalty=0.001), "ridge-0.5": Ridge(penalty=0.25), "depth-2": OLS()},
            {"depth-8": Ridge(penalty=0.25), "ridge-0.5": Ridge(penalty=0.25), "depth-2": OLS()},
        ),
    ],
)
def test_what_passes_and_what_fails(id: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    assert verdict(id, good) is Verdict.PASS
    assert verdict(id, bad) is Verdict.FAIL


def test_a_greedy_tree_is_not_better_than_itself() -> None:
    assert verdict("garg-tree", {"tree-3": RegressionTree(depth=3, signs=True)}) is Verdict.FAIL


def test_least_squares_at_most_numbers_of_examples_is_not_enough() -> None:
    """A model that is as good as least squares but for one number of examples, where it answers 0."""

    class Gap(OLS):
        def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
            result = super().predict_prefixes(xs, ys, queries)
            return torch.where(torch.arange(result.shape[1]) == 7, 0.0, result)

    assert verdict("garg-linear", {"depth-8": Gap()}) is Verdict.FAIL


def test_a_predictor_that_is_bad_everywhere_fails_on_other_orthants() -> None:
    """Always answering 0 loses nothing by the shift, but has nothing to lose."""
    result = what_can.orthants(Instead(0, given={"depth-8": Zero()})).quantities
    assert torch.as_tensor(result["lost"][0]).mean().abs() < 0.2
    assert verdict("garg-orthants", {"depth-8": Zero()}) is Verdict.FAIL


def test_the_control_of_orthants_fails_by_the_shift() -> None:
    """Three nearest neighbours are better than 0 where examples are anywhere, and worse where they are not."""
    result = what_can.orthants(Instead(0, quick=False, given={"depth-8": OLS()}))
    error, lost = (torch.as_tensor(result.quantities[name][1]).mean().item() for name in ("error", "lost"))
    assert result.reported["three nearest, examples anywhere"] < 1 < error
    assert lost > 0.1


def test_a_network_is_as_good_as_itself() -> None:
    result = rivals.relu(Instead(0, given={"relu-5": Network(steps=30)}))
    value, control = result.quantities["against_network"]
    assert value == pytest.approx(1, abs=1e-6)
    assert isinstance(control, float)
    assert not 0.9 < control < 1.1


def test_batches_of_a_network_are_drawn_from_its_prefix() -> None:
    """Labels after the prefix do not matter; with batches, other examples are seen in each step (float32)."""
    sample = Linear(dims=3).sample(Trial(0).draw(4), 9)
    network = Network(steps=20, batch=5)
    some = network.predict_after(sample.xs, sample.ys, (4,))
    later = torch.where(torch.arange(9) < 4, sample.ys, 7.0)
    assert torch.equal(some, network.predict_after(sample.xs, later, (4,)))
    assert not torch.equal(some, network.predict_after(sample.xs, -sample.ys, (4,)))
    assert torch.equal(some.nonzero()[:, 1].unique(), torch.tensor([4]))
    assert not torch.equal(some, Network(steps=20).predict_after(sample.xs, sample.ys, (4,)))
    whole = Network(steps=20).predict_prefixes(sample.xs, sample.ys)
    torch.testing.assert_close(Network(steps=20).predict_after(sample.xs, sample.ys, (4, 7))[:, 7], whole[:, 7])


def test_boosting_is_given_signs_alone() -> None:
    pytest.importorskip("xgboost")
    sample = Linear(dims=3).sample(Trial(0).draw(3), 17)
    result = boosted(sample, (8, 16))
    assert result.shape == (3, 2)
    assert torch.equal(result, boosted(sample._replace(xs=3 * sample.xs), (8, 16)))
    assert not torch.equal(result[:, 0], result[:, 1])


def test_a_bump_without_noise_is_no_double_descent() -> None:
    """A model with an error that rises around d examples for any labels."""

    class Bumpy(OLS):
        def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
            result = super().predict_prefixes(xs, ys, queries)
            return torch.where(torch.arange(result.shape[1]) == 5, -result, result)

    given = {"depth-8": Bumpy(), "ridge-0.5": Ridge(penalty=0.25), "depth-2": OLS()}
    assert verdict("garg-double-descent", given) is Verdict.INCONCLUSIVE


def test_a_bump_is_seen() -> None:
    curve = torch.tensor([1.0, 0.8, 0.6, 0.5, 0.7, 0.9, 0.6, 0.3])
    assert what_can.bump(curve, 5) == pytest.approx(1.8)
    assert what_can.bump(curve.sort(descending=True).values, 5) < 1


def linear(predictor: LinearPredictor) -> Callable[[Tensor, Tensor], Tensor]:
    """A model with predictions linear in the query."""
    return lambda xs, ys: (predictor.weights(xs.detach(), ys) * xs).sum(-1)


def test_gradients_of_answers_are_the_weights() -> None:
    sample = Linear(dims=5).sample(Trial(0).draw(4), 8)
    result = what_can.query_gradients(linear(Averaging()), sample)  # type: ignore[arg-type]
    torch.testing.assert_close(result, Averaging().weights(sample.xs, sample.ys)[:, 1:], rtol=1e-6, atol=1e-6)
    assert verdict("garg-gradient", {"depth-8": linear(OLS())}) is Verdict.PASS
    assert verdict("garg-gradient", {"depth-8": linear(Averaging())}) is Verdict.FAIL


def test_a_model_of_the_papers_size_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first trial only, as it was trained once; least squares in its place has a cosine of 1."""

    class Large:
        def to(self, device: str) -> Large:
            return self

        def eval(self) -> Large:
            return self

        def __call__(self, xs: Tensor, ys: Tensor) -> Tensor:
            return linear(OLS())(xs, ys)

        def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
            return OLS().predict_prefixes(xs, ys, queries)

    monkeypatch.setattr(zoo, "seeded", lambda name, seed: Large())
    reported: dict[str, float] = {}
    for claim in (what_can.linear, what_can.orthants, what_can.double_descent, what_can.gradient):
        given = {"depth-8": Large(), "depth-2": OLS(), "ridge-0.5": Ridge(penalty=0.25)}
        reported |= claim(Instead(0, given=given)).reported
        assert not any("the paper's size" in name for name in claim(Instead(1, given=given)).reported)
    large = {name: value for name, value in reported.items() if name.endswith("the paper's size")}
    assert large["at d, the paper's size"] < 1e-3
    assert large["at 2d, the paper's size"] < 1e-3
    assert large["bump, the paper's size"] > 2
    assert large["cosine at d, the paper's size"] > 0.99
