"""Pools of tasks (Raventós et al.): the measurements, where their sentences hold and where they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.lab.predictors import DiscreteMMSE, Predictor, Ridge, Zero
from inweights.lab.tasks import Linear
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.task_diversity import limit, pretrained

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def test_the_limit_of_large_pools(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 256)
    result, judged = verdict("raventos-limit", 5)
    assert result is Verdict.PASS, judged
    # Towards ridge regression with another penalty, the difference does not vanish.
    monkeypatch.setattr(limit, "Ridge", lambda penalty: Ridge(penalty=100.0))
    assert verdict("raventos-limit", 3)[0] is Verdict.FAIL


def test_the_difference_is_that_of_the_two_predictors() -> None:
    """float32, 1e-5."""
    sample = Linear(dims=8, noise=0.5).sample(Trial(0).draw(4), 6)
    pool = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    one, other = (
        p.predict_prefixes(sample.xs, sample.ys) for p in (DiscreteMMSE(pool=pool, noise=0.5), Ridge(penalty=0.25))
    )
    result = limit.apart(pool, Ridge(penalty=0.25), sample.xs, sample.ys)
    torch.testing.assert_close(result, (one - other).square().mean(1) / 8, rtol=1e-5, atol=1e-5)
    assert (limit.apart(pool[:1], Ridge(penalty=0.25), sample.xs, sample.ys) - result).abs().max() > 1e-2


RIDGE = Ridge(penalty=0.25)


def instead(monkeypatch: pytest.MonkeyPatch, few: Predictor | None, many: Predictor, early: Predictor) -> None:
    """Known predictors in the place of pretrained decoders; `None` is dMMSE for the pool."""

    def pretrained_as(trial: Trial, *, few: bool, part: float = 1.0) -> Predictor:
        if part < 1:
            return early
        own = nearly(DiscreteMMSE(pool=pretrained.pool(trial, fresh=False).weights(), noise=0.5))
        return worlds[few] or own

    worlds = {True: few, False: many}
    monkeypatch.setattr(pretrained, "pretrained", pretrained_as)


def nearly(predictor: Predictor) -> Predictor:
    """A predictor that is a bit off, as a model is."""

    class Off:
        def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
            return 0.95 * predictor.predict_prefixes(xs, ys, queries)

    return Off()


IDS = ["raventos-few", "raventos-own-tasks", "raventos-new-tasks", "raventos-longer"]


@pytest.mark.parametrize("id", IDS)
def test_few_tasks_and_many(id: str, verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world in which they are dMMSE and ridge regression, and one in which both are ridge regression."""
    instead(monkeypatch, None, nearly(RIDGE), Ridge(penalty=1.0))
    result, judged = verdict(id, 10)
    assert result is Verdict.PASS, judged
    instead(monkeypatch, nearly(RIDGE), nearly(RIDGE), nearly(RIDGE))
    result, judged = verdict(id, 5)
    assert result is not Verdict.PASS, judged


def test_a_training_learns_the_pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hundred steps are better than none, and better on the pool than on new tasks."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 200)
    model = pretrained.pretrained(Trial(0), few=True)
    pool, new = (pretrained.answers(Trial(0), {"few": model, "zero": Zero()}, fresh=f) for f in (False, True))
    assert pool.error("few") < 0.7 * pool.error("zero")
    assert pool.error("few") / pool.error("ridge") < new.error("few") / new.error("ridge")
