"""A claim that counts how often it is really run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inweights.ledger import CLAIMS, Found, Trial, claim
from inweights.ledger import _criteria as criteria_module
from inweights.papers._papers import DHERIN


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
        criteria_module.criteria_file(DHERIN.folder),
        "test-claim",
        {"error": {"each": "<1e-10", "control": ">1e-2"}, "seeds": 3},
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
