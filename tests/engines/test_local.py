"""Processes of the engine `local`: no traceback of theirs reaches the terminal, and no Ctrl-C reaches them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from inweights.engines import choose

WORKS = """
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Work:
    key: str
    folder: Path

    def do(self, folder, beat):
        if self.key == "cannot travel":
            return lambda: None
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())

    def failed(self, why):
        return "failed: " + why


class Stranger(Work):
    def __reduce__(self):
        return importlib_nowhere, ()


def importlib_nowhere():
    raise RuntimeError("not known here")
"""


def test_what_cannot_travel_is_an_answer_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "works_of_a_test.py").write_text(WORKS)
    monkeypatch.syspath_prepend(tmp_path)  # the processes inherit it
    works = importlib.import_module("works_of_a_test")
    asked = [works.Work("sees no Ctrl-C", tmp_path), works.Work("cannot travel", tmp_path)]
    asked += [works.Stranger("is not known", tmp_path)]
    found = dict(choose("local", None)(asked, 1, None))
    assert found["sees no Ctrl-C"] is True
    assert found["cannot travel"].startswith("failed: ")
    assert "pickle" in found["cannot travel"]
    assert found["is not known"] == "failed: RuntimeError: not known here"
    assert capfd.readouterr().err == ""
