"""A claim that counts how often it is really run, and hashes of made-up packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from inweights.ledger import CLAIMS, Measurement, Trial, _code, claim
from inweights.ledger import _criteria as criteria_module
from inweights.ledger._facts import Facts, Stratum, facts_file
from inweights.ledger._package import Package, Place
from inweights.ledger._reach import Reach
from inweights.papers._papers import DHERIN


class Counted:
    """The claim `test-claim`, which counts how often it is really run."""

    def __init__(self) -> None:
        self.calls = 0
        self.found: Measurement | Exception = Measurement({"error": (1e-12, 0.5)}, reported={"paper": 0.2})

    def __call__(self, trial: Trial) -> Measurement:
        self.calls += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Counted]:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(
        criteria_module.criteria_file(DHERIN.folder),
        "test-claim",
        {"error": {"each": "<1e-10", "control": ">1e-2"}, "seeds": 3},
    )
    stated = Facts(stratum=Stratum.IDENTITY, paper_value="none", rival="None.", precondition="None.")
    monkeypatch.setitem(facts_file(DHERIN.folder), "test-claim", stated)
    body = Counted()

    def measure(trial: Trial) -> Measurement:
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
        files: Mapping[str, str], name: str = "measure", module: str = "papers.made_up", **more: Any
    ) -> tuple[str, str]:
        shutil.rmtree(tmp_path / "inweights", ignore_errors=True)
        for file, text in files.items():
            path = tmp_path / "inweights" / (file if "." in file else f"{file}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (trial,) = (file.replace("/", ".") for file in files if file.endswith("_trial"))
        given = Place(f"inweights.{trial}", "Trial")
        package = Package(tmp_path / "inweights", given, **more)
        result = Reach(package).of(Place(f"inweights.{module}", name), given)
        return _code._hash(result.ledger), _code._hash(result.below)

    return hashes
