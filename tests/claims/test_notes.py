"""What the notes say: their mistakes fail, what holds instead passes; models whose answer is known stand in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.claims import CLAIMS, Trial, Verdict, notes
from inweights.lab.models import Learner
from inweights.lab.predictors import OLS

MISTAKES = [
    "note-attention-demo",
    "note-plus-is-newton",
    "note-factors",
    "note-index",
    "note-only-update",
    "note-order-stable",
]
RIGHT = ["note-attention-corrected", "note-plus-corrected", "note-order-full-batch"]


@pytest.mark.parametrize("id", MISTAKES)
def test_mistakes_fail(id: str, verdict: Callable[..., tuple[Verdict, object]]) -> None:
    assert verdict(id)[0] is Verdict.FAIL


@pytest.mark.parametrize("id", RIGHT)
def test_what_is_right_passes(id: str, verdict: Callable[..., tuple[Verdict, object]]) -> None:
    assert verdict(id)[0] is Verdict.PASS


def test_least_squares_is_no_reference_at_as_many_examples_as_dimensions() -> None:
    found = CLAIMS["note-ols-reference"].measure(Trial(0))
    assert found.plot is not None
    ratios = found.plot.lines["noise 0.1"]
    assert ratios[notes.LENGTHS.index(10)] > 10
    assert ratios[notes.LENGTHS.index(20)] == pytest.approx(1, abs=0.02)


class AsLearner(Learner):
    """A predictor in a model's place."""

    def __init__(self, predictor: OLS) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return self.predictor.predict_prefixes(xs, ys)


def test_the_encoder_is_held_against_least_squares(stand_in: Callable[..., None]) -> None:
    stand_in({"seed-encoder": lambda trial: AsLearner(OLS())})
    value, control = CLAIMS["note-encoder"].measure(Trial(0)).quantities["against_ols"]
    assert value == pytest.approx(1, abs=1e-5)  # float32
    assert isinstance(control, float)
    assert control > 10  # the untrained encoder


def test_lengths_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    falling = {"model": [1 / (n + 1) for n in range(51)], "untrained": [float(n) for n in range(51)], "ols": [1.0] * 51}
    monkeypatch.setattr(notes, "errors_of", lambda *args, **kwargs: falling)
    found = notes.over_lengths(OLS(), Trial(0))
    assert found.quantities["rank_correlation"] == pytest.approx((-1, 1))


def test_the_best_rate_makes_a_multiple_equal_and_nothing_else() -> None:
    random = torch.Generator().manual_seed(0)
    step = torch.randn(4, 6, generator=random, dtype=torch.float64)
    rates = torch.rand(4, 1, generator=random, dtype=torch.float64)
    assert notes.miss_at_best_rate(rates * step, step) < 1e-12
    assert notes.miss_at_best_rate(step.square(), step) > 1e-2
