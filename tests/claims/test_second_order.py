"""Newton's iteration as layers, and how layers are matched with steps: on parts whose answer is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from inweights.claims import CLAIMS, Trial, Verdict, criteria, judge, second_order
from inweights.claims._keep import Kept
from inweights.lab.models import Learner
from inweights.lab.predictors import GD, Newton
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build, read


def verdict(id: str) -> Verdict:
    found = [Kept.of(CLAIMS[id].measure(Trial(seed)), "found", "", 0.0).quantities for seed in range(5)]
    return judge(
        criteria()[id], {name: ([f[name][0] for f in found], [f[name][1] or [] for f in found]) for name in found[0]}
    )[0]


@pytest.mark.parametrize("id", ["fu-newton-converges", "fu-construction"])
def test_exact_claims_pass(id: str) -> None:
    assert verdict(id) is Verdict.PASS


def test_newton_that_never_comes_near_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    # From twice the spectral norm, the paper's own start, the steepest direction is never learned.
    monkeypatch.setattr(second_order, "Newton", lambda steps: Newton(steps=steps, start="paper"))
    assert verdict("fu-newton-converges") is Verdict.FAIL


def test_a_layer_is_a_step() -> None:
    # float64; one step less, or one more, is visible
    sample = Linear(dims=3).sample(Trial(0).draw(8, dtype=torch.float64), 9)
    S = sample.xs[:, :-1].mT @ sample.xs[:, :-1]
    xs = sample.xs * torch.linalg.matrix_norm(S @ S)[:, None, None] ** -0.25
    answers = {
        k: second_order.newton_construction(k, 3)(torch.cat([xs, torch.zeros_like(xs)], -1), sample.ys)[:, -1]
        for k in (2, 3, 4)
    }
    wanted = Newton(steps=3).predict_prefixes(xs, sample.ys)[:, -1]
    torch.testing.assert_close(answers[3], wanted, rtol=1e-11, atol=1e-12)
    for wrong in (2, 4):
        assert (answers[wrong] - wanted).abs().max() > 1e-2 * wanted.abs().max()


def test_descent_at_once_is_the_descent_of_the_lab() -> None:
    sample = Linear(dims=4).sample(Trial(0).draw(6, dtype=torch.float64), 9)
    found = second_order.descended(sample.xs, sample.ys, torch.tensor([1, 7]), 0.03)
    for at, steps in enumerate((1, 7)):
        wanted = GD(rate=0.03, steps=steps).weights(sample.xs, sample.ys)
        torch.testing.assert_close(found[at], wanted, rtol=1e-10, atol=1e-10)
    assert (found[0] - found[1]).abs().max() > 1e-2


def test_layers_that_are_newton_steps_are_matched_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(model: Learner, known: Sample, asked: Sample) -> Tensor:
        xs, ys = asked.xs.double(), asked.ys.double()
        return torch.stack([Newton(steps=k).predict_prefixes(xs, ys) for k in (2, 4, 6, 8, 10)])

    given, model = second_order.paths(Trial(0)), build(read("depth-2"))
    monkeypatch.setattr(second_order, "layer_answers", layers)
    found = second_order.matched_steps(given, model)
    assert found["newton"] == [2, 4, 6, 8, 10]
    assert min(found["newton likeness"]) > 1 - 1e-9 > max(found["gd likeness"])
    assert second_order.r_squared([math.log(s) for s in found["gd"]]) > 0.95
    assert found["gd"][-1] > 10 * found["gd"][0]


def test_an_untrained_decoder_matches_nothing() -> None:
    found = second_order.matched_steps(second_order.paths(Trial(0)), build(read("depth-2")))
    assert found["newton"] == [0, 0]
    assert second_order.r_squared(found["newton"]) == 0


@pytest.mark.parametrize(("values", "wanted"), [([1, 3, 5, 7], 1.0), ([2, 2, 2], 0.0), ([0, 1, 0], 0.0)])
def test_r_squared(values: list[float], wanted: float) -> None:
    assert second_order.r_squared(values) == pytest.approx(wanted, abs=1e-12)
