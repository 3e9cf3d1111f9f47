"""Tests of claims without the zoo: models with known predictions replace trained ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

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


def measured(id: str, seed: int) -> Kept:
    """The result of one quick trial."""
    return Kept.of(CLAIMS[id].measure(Trial(seed)), "found", "", 0.0)


def judged(id: str, kept: Sequence[Kept]) -> tuple[Verdict, dict[str, Judged]]:
    each = [k.quantities for k in kept]
    result = {name: ([k[name][0] for k in each], [k[name][1] or [] for k in each]) for name in each[0]}
    return judge(criteria()[id], result, {name: [k.rivals[name] for k in kept] for name in kept[0].rivals})


@pytest.fixture
def verdict() -> Callable[..., tuple[Verdict, dict[str, Judged]]]:
    """The verdict of a claim after some quick trials, which are not cached, as tests replace parts of claims. Three
    trials are enough where the verdict does not depend on the width of an interval."""

    def of(id: str, seeds: int = 3, first: int = 0) -> tuple[Verdict, dict[str, Judged]]:
        return judged(id, [measured(id, seed) for seed in range(first, first + seeds)])

    return of


@pytest.fixture(scope="session")
def as_it_is() -> Callable[[str, int], Kept]:
    """The result of a quick trial of an exact claim, cached for all tests. Not for tests that replace parts of it."""

    @cache
    def of(id: str, seed: int) -> Kept:
        assert CLAIMS[id].exact
        assert not CLAIMS[id].models
        return measured(id, seed)

    return of


@pytest.fixture(scope="session")
def exact_verdict(as_it_is: Callable[[str, int], Kept]) -> Callable[[str], tuple[Verdict, dict[str, Judged]]]:
    """The verdict of an exact claim after two quick trials: its bounds apply to each of them."""
    return lambda id: judged(id, [as_it_is(id, seed) for seed in range(2)])
