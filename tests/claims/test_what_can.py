"""The measurements of Garg et al.'s claims, on algorithms in the place of trained models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.claims import CLAIMS, Trial, Verdict, criteria, judge, what_can
from inweights.claims._keep import Kept
from inweights.lab.predictors import OLS, Averaging, Lasso, LinearPredictor, Nearest, Network, Ridge, Tree, Zero
from inweights.lab.tasks import Linear


@dataclass(frozen=True)
class Instead(Trial):
    """A trial in which these take the place of trained models."""

    given: Mapping[str, Any] = field(default_factory=dict)

    def trained(self, name: str) -> Any:
        return self.given[name]


def verdict(id: str, given: dict[str, Any]) -> Verdict:
    found = [Kept.of(CLAIMS[id].measure(Instead(seed, given=given)), "found", "", 0.0).quantities for seed in range(5)]
    return judge(
        criteria()[id], {name: ([f[name][0] for f in found], [f[name][1] or [] for f in found]) for name in found[0]}
    )[0]


@pytest.mark.parametrize(
    ("id", "good", "bad"),
    [
        ("garg-linear", {"depth-8": OLS()}, {"depth-8": Zero()}),
        ("garg-sparse", {"sparse-8": Lasso(penalty=1e-3)}, {"sparse-8": Ridge(penalty=1.0)}),
        ("garg-tree", {"tree-3": Tree(depth=3, signs=True)}, {"tree-3": Nearest()}),
        ("garg-orthants", {"depth-8": OLS()}, {"depth-8": Nearest()}),
        (
            "garg-double-descent",
            {"depth-8": Ridge(penalty=0.001), "ridge-0.5": Ridge(penalty=0.25)},
            {"depth-8": Ridge(penalty=0.25), "ridge-0.5": Ridge(penalty=0.25)},
        ),
    ],
)
def test_what_passes_and_what_fails(id: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    # A greedy tree in the place of the decoder is exactly as good as its rival: no better, so neither passes.
    assert verdict(id, good) is (Verdict.PASS if id != "garg-tree" else Verdict.INCONCLUSIVE)
    assert verdict(id, bad) is Verdict.FAIL


def test_a_network_is_as_good_as_itself() -> None:
    found = what_can.relu(Instead(0, given={"relu-5": Network()}))
    value, control = found.quantities["against_network"]
    assert torch.as_tensor(value).mean().item() == pytest.approx(1, abs=1e-6)
    assert torch.as_tensor(control).mean() > 1.1


def test_a_bump_is_seen() -> None:
    curve = torch.tensor([1.0, 0.8, 0.6, 0.5, 0.7, 0.9, 0.6, 0.3])
    assert what_can.bump(curve) == pytest.approx(1.8)
    assert what_can.bump(curve.sort(descending=True).values) < 1


def linear(predictor: LinearPredictor) -> Callable[[Tensor, Tensor], Tensor]:
    """A model whose answers are linear in the query."""
    return lambda xs, ys: (predictor.weights(xs.detach(), ys) * xs).sum(-1)


def test_gradients_of_answers_are_the_weights() -> None:
    sample = Linear(dims=5).sample(Trial(0).draw(4), 8)
    found = what_can.query_gradients(linear(Averaging()), sample)  # type: ignore[arg-type]
    torch.testing.assert_close(found, Averaging().weights(sample.xs, sample.ys)[:, 1:], rtol=1e-6, atol=1e-6)
    assert verdict("garg-gradient", {"depth-8": linear(OLS())}) is Verdict.PASS
    assert verdict("garg-gradient", {"depth-8": linear(Averaging())}) is Verdict.FAIL
