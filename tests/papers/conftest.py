"""Tests of claims without the zoo: models with known predictions replace trained ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from inweights.lab.models import Learner
from inweights.lab.training import build
from inweights.ledger import CLAIMS, Trial, Verdict, criteria, judge
from inweights.ledger._cache import Kept
from inweights.ledger._judge import Judged

Maker = Callable[[Trial], Learner]


@pytest.fixture
def untrained() -> Callable[[str], Maker]:
    """The untrained model of a recipe."""
    return lambda name: lambda trial: build(trial.recipe(name))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Maker]], None]:
    """Makes `trial.trained(name)` return the given models."""

    def stand(makers: Mapping[str, Maker]) -> None:
        monkeypatch.setattr(Trial, "trained", lambda trial, name: makers[name](trial))

    return stand


@pytest.fixture
def verdict() -> Callable[..., tuple[Verdict, dict[str, Judged]]]:
    """The verdict of a claim after some quick trials, which are not cached."""

    def judged(id: str, seeds: int = 5) -> tuple[Verdict, dict[str, Judged]]:
        found = [CLAIMS[id].measure(Trial(seed)) for seed in range(seeds)]
        kept = [Kept.of(each, "found", "", 0.0).quantities for each in found]
        return judge(
            criteria()[id], {name: ([k[name][0] for k in kept], [k[name][1] or [] for k in kept]) for name in kept[0]}
        )

    return judged
