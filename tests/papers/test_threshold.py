"""The threshold of task diversity: where it is known, and trainings that are missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.predictors import DiscreteMMSE, Ridge
from inweights.lab.training import Recipe, changed
from inweights.ledger import NotHereError, Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.task_diversity import dimension, threshold

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""


class Between(Learner):
    """Predictions a share of the way from dMMSE for a pool to ridge regression, a bit off, as a model's are."""

    def __init__(self, pool: Tensor, share: float, off: float) -> None:
        super().__init__()
        self.known, self.share, self.off = DiscreteMMSE(pool=pool, noise=0.5), share, off

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        one, other = (p.predict_prefixes(xs, ys) for p in (self.known, Ridge(penalty=0.25)))
        return (1 + self.off * torch.sin(99 * xs.sum(-1))) * torch.lerp(one, other, self.share)


def world(monkeypatch: pytest.MonkeyPatch, at: Callable[[int], float]) -> None:
    """Decoders that turn from dMMSE to ridge regression where a pool has 2^at(dims) tasks; longer trainings come
    nearer."""

    def between(trial: Trial, dims: int, size: int, part: float) -> Learner:
        pool = threshold.pool_of(trial, dims, size).weights()
        share = 1 / (1 + 2 ** (-2 * (math.log2(size) - at(dims))))
        return Between(pool, share if part == 1 else 0.5 + 0.4 * (share - 0.5), 1e-2)

    def small(trial: Trial, size: int, part: float = 1.0) -> Learner:
        return between(trial, threshold.DIMS, size, part)

    def large(trial: Trial, recipe: Recipe) -> Learner:
        return between(trial, recipe.task.settings["dims"], recipe.task.settings["size"], 1.0)

    monkeypatch.setattr(threshold, "decoder", small)
    monkeypatch.setattr(dimension, "decoder", large)
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 1)  # of as many batches


IDS = ["raventos-threshold", "raventos-dimension", "raventos-both-sides"]


@pytest.mark.parametrize("id", IDS)
def test_where_there_is_a_threshold(id: str, verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows with the dimension; and a world in which all decoders are near ridge regression."""
    world(monkeypatch, lambda dims: 4.0 + dims / 2)
    found, judged = verdict(id, 3, FIRST)
    assert found is Verdict.PASS, judged
    world(monkeypatch, lambda dims: -9.0)
    if id == "raventos-both-sides":
        with pytest.raises(Exception, match="ratios of distances"):
            verdict(id, 1, FIRST)
        return
    found, judged = verdict(id, 3, FIRST)
    assert found is Verdict.FAIL, judged


def test_a_threshold_that_stays_fails(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, lambda dims: 7.0)
    found, judged = verdict("raventos-dimension", 5, FIRST)
    assert found is Verdict.FAIL, judged


@pytest.mark.parametrize(
    ("line", "wanted"),
    [([0.5, 2.0], 3.0), ([0.25, 0.5, 2.0], 5.0), ([2.0, 3.0], 2.0), ([0.1, 0.2], 4.0), ([0.5, 1.0], 4.0)],
)
def test_the_threshold_is_where_the_ratio_reaches_one(line: list[float], wanted: float) -> None:
    """Halfway in logarithms, and at the ends if it is nowhere between."""
    sizes = tuple(4 ** (k + 1) for k in range(len(line)))
    assert threshold.threshold(line, sizes) == pytest.approx(wanted)


def test_ranks() -> None:
    assert threshold.rank_correlation([0.1, 0.5, 0.7]) == pytest.approx(1)
    assert threshold.rank_correlation([3.0, 2.0, 0.5]) == pytest.approx(-1)


def test_a_training_of_hours_is_not_begun_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `train` it is made once, and then read. Each pool belongs to its seed."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    trial = Trial(FIRST, quick=False)
    recipe = changed(dimension.recipe_of(trial, 4, 16), ["steps=3", "batch=8"])
    with pytest.raises(NotHereError, match="--train"):
        dimension.decoder(trial, recipe)
    asked = dimension.decoder(replace(trial, train=True), recipe)
    read = dimension.decoder(trial, recipe)
    assert all(torch.equal(p, q) for p, q in zip(asked.parameters(), read.parameters(), strict=True))
    other = dimension.recipe_of(Trial(FIRST + 1), 8, 64)
    assert (other.seed, other.task.settings) == (FIRST + 1, {"dims": 8, "size": 64, "which": FIRST + 1})
    with pytest.raises(NotHereError):
        dimension.decoder(trial, other)


def test_a_training_learns_its_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tasks in 150 steps: nearer to its labels than what always answers 0."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    model = threshold.decoder(Trial(FIRST), 4, 0.25)
    task = threshold.pool_of(Trial(FIRST), threshold.DIMS, 4)
    sample = task.sample(Trial(FIRST).draw(512), 8)
    missed = (model.predict_prefixes(sample.xs, sample.ys) - sample.hidden["clean"]).square().mean()
    assert missed < 0.8 * sample.hidden["clean"].square().mean()
