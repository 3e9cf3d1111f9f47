"""Processes of the engine `local`: no traceback of theirs reaches the terminal, no Ctrl-C reaches them, and work whose
process dies is done by another."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from inweights.engines import _local, choose

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


def the_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `WORKS`, which the processes find as well."""
    (folder / "works_of_a_test.py").write_text(WORKS)
    monkeypatch.syspath_prepend(folder)  # the processes inherit it
    monkeypatch.delitem(sys.modules, "works_of_a_test", raising=False)
    return importlib.import_module("works_of_a_test")


class Frail(_local.Worker[Any]):
    """A worker that dies with its first work, if it is the first one."""

    born: ClassVar[list[str]] = []

    def give(self, work: _local.Work[Any]) -> None:
        super().give(work)
        Frail.born.append(work.key)
        if len(Frail.born) == 1:
            self.process.kill()


def test_a_worker_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works = the_works(tmp_path, monkeypatch)
    monkeypatch.setattr(_local, "Worker", Frail)
    monkeypatch.setattr(Frail, "born", [])
    asked = [works.Work(key, tmp_path) for key in ("one", "two")]
    assert sorted(choose("local", None)(asked, 1, None)) == [("one", True), ("two", True)]
    assert Frail.born == ["one", "one", "two"]  # two works, and one of them again


def test_what_cannot_travel_is_an_answer_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    works = the_works(tmp_path, monkeypatch)
    asked = [works.Work("sees no Ctrl-C", tmp_path), works.Work("cannot travel", tmp_path)]
    asked += [works.Stranger("is not known", tmp_path)]
    result = dict(choose("local", None)(asked, 1, None))
    assert result["sees no Ctrl-C"] is True
    assert result["cannot travel"].startswith("failed: ")
    assert "pickle" in result["cannot travel"]
    assert result["is not known"] == "failed: RuntimeError: not known here"
    assert capfd.readouterr().err == ""
