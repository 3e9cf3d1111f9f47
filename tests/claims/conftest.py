"""Claims put to the test without the zoo: models whose answers are known stand in for trained ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from inweights.claims import CLAIMS, Found, Trial, Verdict, _code, claim, criteria, judge
from inweights.claims import _criteria as criteria_module
from inweights.claims._judge import Judged
from inweights.claims._keep import Kept
from inweights.claims._package import Package, Place
from inweights.claims._papers import DHERIN
from inweights.claims._reach import Reach
from inweights.lab.models import Learner
from inweights.lab.training import build

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


class Counted:
    """The claim `test-claim`, which counts how often it is really run."""

    def __init__(self) -> None:
        self.calls = 0
        self.found: Found | Exception = Found({"error": (1e-12, 0.5)}, told={"paper": 0.2})

    def __call__(self, trial: Trial) -> Found:
        self.calls += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Counted]:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(
        criteria_module._file(), "test-claim", {"error": {"each": "<1e-10", "control": ">1e-2"}, "seeds": 3}
    )
    body = Counted()

    def measure(trial: Trial) -> Found:
        """A sentence.

        Measured: a number.

        Control: another number.

        Settings: none.
        """
        return body(trial)

    claim("test-claim", DHERIN, "nowhere", exact=True)(measure)
    yield body
    del CLAIMS["test-claim"]


@pytest.fixture
def reach(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """The hashes of a function of a made-up package: of what it reaches in the ledger, and below it."""

    def hashes(
        files: Mapping[str, str], name: str = "measure", module: str = "claims.made_up", **more: Any
    ) -> tuple[str, str]:
        shutil.rmtree(tmp_path / "inweights", ignore_errors=True)
        for file, text in files.items():
            path = tmp_path / "inweights" / (file if "." in file else f"{file}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (trial,) = (file.replace("/", ".") for file in files if file.endswith("_trial"))
        given = Place(f"inweights.{trial}", "Trial")
        package = Package(tmp_path / "inweights", given, **more)
        found = Reach(package).of(Place(f"inweights.{module}", name), given)
        return _code._hash(found.ledger), _code._hash(found.below)

    return hashes
