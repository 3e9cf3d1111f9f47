"""The command line, called in this process: a new one takes seconds to load torch."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from inweights.cli import main


class Said(NamedTuple):
    stdout: str
    stderr: str


Lab = Callable[..., Said]


@pytest.fixture(scope="session")
def lab() -> Lab:
    """`lab("eval", …, code=0)`: the output of `inweights lab eval …`; its exit code is checked."""

    def call(*args: str | Path, code: int = 0) -> Said:
        out, err, before = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["inweights", "lab", *map(str, args)]
        try:
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as done:
                main()
        finally:
            sys.argv = before
        assert (done.value.code or 0) == code, err.getvalue()
        return Said(out.getvalue(), err.getvalue())

    return call


@pytest.fixture(scope="session")
def refused(lab: Lab) -> Callable[..., str]:
    """The error message of a command."""

    def call(*args: str | Path) -> str:
        ended = lab(*args, code=2)
        assert ended.stdout == ""
        return ended.stderr

    return call
