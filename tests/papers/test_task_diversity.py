"""Pools of tasks (Raventós et al.): the measurements, where their sentences hold and where they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from inweights.lab.predictors import DiscreteMMSE, Ridge
from inweights.lab.tasks import Linear
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.task_diversity import limit

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def test_the_limit_of_large_pools(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 256)
    found, judged = verdict("raventos-limit", 5)
    assert found is Verdict.PASS, judged
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
    found = limit.apart(pool, Ridge(penalty=0.25), sample.xs, sample.ys)
    torch.testing.assert_close(found, (one - other).square().mean(1) / 8, rtol=1e-5, atol=1e-5)
    assert (limit.apart(pool[:1], Ridge(penalty=0.25), sample.xs, sample.ys) - found).abs().max() > 1e-2
