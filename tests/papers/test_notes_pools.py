"""The law that a model predicts for a pool of tasks: the exact one, too narrow ones, and that of a normal prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.lab.predictors import DiscreteMMSE
from inweights.lab.tasks import Sample
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import pools
from inweights.papers.notes.pools import Mixed

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def one(mean: float, deviation: float) -> Mixed:
    column = torch.ones(1, 1, dtype=torch.float64)
    return Mixed(0 * column, mean * column, deviation * column)


def test_divergences_and_ranks_of_normal_laws() -> None:
    """Against the formulas, float64, 1e-6; a mixture of two equal components is one of them."""
    away = one(0.0, 0.5).divergence(one(1.0, 2.0))
    assert away == pytest.approx(math.log(4) + (0.25 + 1) / 8 - 0.5, abs=1e-6)
    assert one(0.0, 0.5).divergence(one(0.0, 0.5)) == 0
    twice = Mixed(*(torch.cat([part, part], 1) for part in one(1.0, 2.0)))._replace(
        weights=torch.full((1, 2), math.log(0.5), dtype=torch.float64)
    )
    assert one(1.0, 2.0).divergence(twice) == pytest.approx(0, abs=1e-9)
    assert twice.ranks(torch.ones(1, dtype=torch.float64)).item() == pytest.approx(0.5, abs=1e-12)


def test_the_mean_of_the_exact_law_is_that_of_dmmse() -> None:
    """float32, 1e-5; that of a normal prior is another one."""
    task = pools.task_of(Trial(900))
    sample = task.sample(Trial(900).draw(16), pools.POINTS)
    wanted = DiscreteMMSE(pool=task.weights(), noise=pools.NOISE).predict_prefixes(sample.xs, sample.ys)
    for n in pools.LENGTHS:
        law = pools.exact(task.weights(), sample, n)
        mean = (law.weights.exp() * law.means).sum(-1)
        torch.testing.assert_close(mean.float(), wanted[:, n], rtol=1e-5, atol=1e-5)
        assert (pools.normal_prior(sample, n).means[:, 0] - mean).abs().max() > 1e-2


@pytest.mark.parametrize(("wrong", "wanted"), [(1.1, Verdict.PASS), (0.3, Verdict.FAIL)])
def test_the_law_of_a_pool(wrong: float, wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact law with another deviation, in the place of a model."""

    def outputs(pool: Tensor, sample: Sample) -> Mixed:
        laws = [pools.exact(pool, sample, n) for n in range(sample.xs.shape[1])]
        weights, means, deviations = (torch.stack(part, 1) for part in zip(*laws, strict=True))
        return Mixed(weights, means, wrong * deviations)

    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 1024)
    monkeypatch.setattr(pools, "mixture_model", lambda trial: pools.task_of(trial).weights())
    monkeypatch.setattr(pools, "outputs", outputs)
    result, judged = verdict("note-predictive-pool", 5)
    assert result is wanted, judged


def test_a_training_on_the_likelihood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A few steps increase it."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    trial, likely = Trial(900), []
    sample = pools.task_of(trial).sample(trial.draw(256), pools.POINTS)
    for steps in (1, 80):
        monkeypatch.setattr(Trial, "size", lambda trial, quick, full, steps=steps: steps)
        laws = pools.outputs(pools.mixture_model(trial), sample)
        flat = Mixed(*(each.flatten(0, 1) for each in laws))
        likely.append(flat.log_density(sample.ys.reshape(-1, 1)).mean().item())
    assert likely[1] > likely[0] + 0.1
