"""Curves: the right error at the right place, on prompts that no training has seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from inweights.lab import Draw, bootstrap, curves, rivals
from inweights.lab._curves import TEST, errors
from inweights.lab.predictors import Ridge
from inweights.lab.tasks import SHIFTS, TASKS


@dataclass(frozen=True)
class Knows:
    """Answers `factor` times the truth of linear prompts, from weights fitted on the whole prompt, which uses later
    points."""

    factor: float

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        w = torch.linalg.lstsq(xs, ys.unsqueeze(-1)).solution
        return self.factor * ((xs if queries is None else queries) @ w).squeeze(-1)


def test_errors_are_in_units_of_the_zero_predictor() -> None:
    task = TASKS.make("linear", dims=4)
    result = curves(task, 9, {"zero": Knows(0.0), "half": Knows(0.5), "all": Knows(1.0)}, prompts=2000)
    assert {name: tuple(e.shape) for name, e in result.items()} == dict.fromkeys(("zero", "half", "all"), (2000, 9))
    zero = result["zero"]
    standard_error = zero.std() / zero.numel() ** 0.5 * 3  # points of one prompt share its weights
    assert abs(zero.mean() - 1) < 4 * standard_error
    torch.testing.assert_close(result["half"], 0.25 * zero, rtol=1e-3, atol=1e-6)
    assert result["all"].max() < 1e-6


def test_prompts_do_not_depend_on_how_many_are_asked_for() -> None:
    task = TASKS.make("linear", dims=3)
    few, many = (curves(task, 5, {"zero": Knows(0.0)}, prompts=n)["zero"] for n in (300, 600))
    assert torch.equal(few, many[:300])
    other = curves(task, 5, {"zero": Knows(0.0)}, prompts=300, seed=1)["zero"]
    assert not torch.equal(few, other)


def test_seeds_of_tests_are_none_of_a_training() -> None:
    task = TASKS.make("linear", dims=3)
    tested = task.sample(Draw(TEST, 0, 4), 5).xs
    assert all(not torch.equal(tested, task.sample(Draw(seed, 0, 4), 5).xs) for seed in range(5))
    assert TEST < 0


def test_against_labels_without_noise() -> None:
    task = TASKS.make("linear", dims=2, noise=2.0)
    noisy, clean = (curves(task, 40, {"ols": Knows(1.0)}, prompts=500, clean=c)["ols"].mean() for c in (False, True))
    assert clean < 0.3 < noisy


def test_other_losses() -> None:
    signs = errors("logistic", torch.tensor([[1.0, -2.0, 3.0]]), torch.tensor([[1.0, 1.0, 0.0]]), 1.0)
    assert signs.tolist() == [[0.0, 1.0, 1.0]]
    sure = torch.tensor([[[9.0, 0.0], [0.0, 9.0]]])
    reported = errors("tokens", sure, torch.tensor([[0, 0]]), 1.0)
    assert reported[0, 0] < 1e-3
    assert reported[0, 1] == pytest.approx(9.0, abs=1e-3)


BEST = {  # after twelve examples
    "linear": "ols", "noisy": "ridge", "hetero": "weighted-ridge", "sparse": "lasso", "kernel": "kernel-ridge",
    "sine": "kernel-ridge", "pool": "dmmse",
}  # fmt: skip


@pytest.mark.parametrize("name", list(TASKS))
def test_every_task_has_its_rivals(name: str) -> None:
    """They can predict it, and the one that should be the best for it is."""
    task = TASKS.make(name)
    points, prompts = (13, 512) if name in BEST else (31, 32)
    result = {who: e[:, -1].nanmean().item() for who, e in curves(task, points, rivals(task), prompts=prompts).items()}
    assert all(math.isfinite(e) for e in result.values())
    if name in BEST:
        assert min(result, key=result.__getitem__) == BEST[name], result


def test_the_baseline_of_scaled_weights_uses_their_scale() -> None:
    """σ²/τ² has the least error of all penalties, the one of weights of scale 1 among them."""
    task = TASKS.make("scaled", dims=8, noise=2.0, spread=0.5)
    others = {str(p): Ridge(penalty=p) for p in (1.0, 4.0, 64.0)}
    error = {who: e[:, -1].mean() for who, e in curves(task, 9, rivals(task) | others, prompts=2048).items()}
    assert min(error, key=error.__getitem__) == "ridge"


def test_rivals_of_tasks_without_noise() -> None:
    for task in (TASKS.make("mixed-noise", levels=(0.0, 1.0)), TASKS.make("pool", noise=0.0)):
        assert all(bool(e.isfinite().all()) for e in curves(task, 9, rivals(task), prompts=8).values())


def test_shifted_prompts_are_held_against_clean_answers_too() -> None:
    task = TASKS.make("linear", dims=2, noise=2.0)
    source = SHIFTS.make("orthants").on(task)
    noisy, clean = (
        curves(task, 30, {"ols": Knows(1.0)}, prompts=400, clean=c, source=source)["ols"].mean() for c in (False, True)
    )
    assert clean < 0.4 < noisy


def test_points_without_an_answer_are_no_numbers() -> None:
    task = TASKS.make("retrieval", dims=4, pairs=5)
    result = curves(task, 9, rivals(task), prompts=16)["zero"]
    assert result[:, :5].isnan().all()
    assert result[:, 5:].isfinite().all()
    band = bootstrap(result)
    assert band.mean[:5].isnan().all()
    assert bool((band.low[5:] <= band.mean[5:]).all())
