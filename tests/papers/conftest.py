"""Claims put to the test without the zoo: models whose answers are known stand in for trained ones."""

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
    """What a recipe begins with."""
    return lambda name: lambda trial: build(trial.recipe(name))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Maker]], None]:
    """From then on `trial.trained(name)` gives what is made there."""

    def stand(makers: Mapping[str, Maker]) -> None:
        monkeypatch.setattr(Trial, "trained", lambda trial, name: makers[name](trial))

    return stand


@pytest.fixture
def verdict() -> Callable[..., tuple[Verdict, dict[str, Judged]]]:
    """Of a claim after so many quick trials; what they found is not kept."""

    def judged(id: str, seeds: int = 5) -> tuple[Verdict, dict[str, Judged]]:
        found = [CLAIMS[id].measure(Trial(seed)) for seed in range(seeds)]
        kept = [Kept.of(each, "found", "", 0.0).quantities for each in found]
        return judge(
            criteria()[id], {name: ([k[name][0] for k in kept], [k[name][1] or [] for k in kept]) for name in kept[0]}
        )

    return judged
