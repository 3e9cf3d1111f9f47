"""How commands end: 0 holds, 1 does not hold, 2 bad input, 3 internal error, 130 interrupted; never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inweights.bench
from inweights.cli._exits import exit_code

Run = Callable[..., Any]


def broken(error: BaseException) -> Callable[..., Any]:
    def load(name: str) -> Any:
        raise error

    return load


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INWEIGHTS_TRACEBACK", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    "error", [RuntimeError("a defect"), KeyError("k"), RecursionError("deep"), AssertionError(), EOFError("end")]
)
def test_an_internal_error_prints_how_to_report_it(
    error: Exception, run: Run, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inweights.bench, "load", broken(error))
    ended = run("bench", "update", "--json")
    assert (ended.code, ended.out) == (3, "")
    assert "Traceback" not in ended.err
    (report,) = (own_cache / "errors").iterdir()
    for words in (type(error).__name__, str(report), "`inweights bench update --json`", "inweights 0", "Python 3",
                  "torch 2", "transformers 5", "INWEIGHTS_TRACEBACK=1"):  # fmt: skip
        assert words in ended.err
    text = report.read_text()
    assert text.startswith("inweights bench update --json\ninweights 0")
    assert "Traceback (most recent call last)" in text
    assert "raise error\n" in text
    assert report.stat().st_mode & 0o077 == 0, "it repeats the command, which may hold a prompt"


def test_the_traceback_is_printed_if_asked_for(run: Run, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INWEIGHTS_TRACEBACK", "1")
    monkeypatch.setattr(inweights.bench, "load", broken(RuntimeError("a defect")))
    ended = run("bench", "update")
    assert ended.code == 3
    assert "Traceback (most recent call last)" in ended.err


def test_a_cache_that_is_a_file_does_not_hide_the_error(
    run: Run, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_cache.write_text("a file")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(inweights.bench, "load", broken(RuntimeError("a defect")))
    ended = run("bench", "update")
    assert ended.code == 3
    (report,) = tmp_path.glob("inweights-*.txt")
    assert str(report) in ended.err
    monkeypatch.setattr("tempfile.tempdir", str(own_cache))
    ended = run("bench", "update")
    assert ended.code == 3
    assert "report it with INWEIGHTS_TRACEBACK=1 set" in ended.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (MemoryError(), 2, "There is not enough memory for this"),
        (RuntimeError("CUDA out of memory. Tried"), 2, "There is not enough memory for this"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't"), 2, "There is not enough memory for this"),
        (OSError(28, "No space left on device", "f"), 2, "A file could not be used 'f': No space left on device.\n"),
        (ModuleNotFoundError("no", name="matplotlib.pyplot"), 2, "pip install 'inweights[lab]'"),
        (ModuleNotFoundError("no", name="inweights.nowhere"), 3, "Internal error"),
    ],
)
def test_other_ends(
    error: BaseException, code: int, words: str, run: Run, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inweights.bench, "load", broken(error))
    ended = run("bench", "update")
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_what_cannot_be_encoded_is_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "argv", ["inweights"])
        assert exit_code(lambda: out.write("→\n")) == 0
    assert (tmp_path / "out").read_text() == "\\u2192\n"


def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "argv", ["inweights"])
    assert exit_code(lambda: sys.stdout.write("x")) == 0
    sys.stdout.close()


# --- in processes of their own ------------------------------------------------------------------------


def started(*command: str) -> subprocess.Popen[str]:
    """A process that handles Ctrl-C, also if the tests themselves run in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored here, is ignored there
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def script(lines: str) -> tuple[str, ...]:
    return sys.executable, "-c", f"import sys\n{lines}\nfrom inweights.__main__ import main\nmain()"


def test_ctrl_c_while_a_command_reads(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = started(
        sys.executable, "-m", "inweights", "fold", "--context", f"@{pipe}", "--out", str(tmp_path / "out")
    )
    with pipe.open("wb"):  # waits until the command has opened it
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120) == ("", "Interrupted.\n")
    assert process.returncode == 130


def test_ctrl_c_while_the_command_line_is_imported() -> None:
    """At the first import of typer, before any of the package's own handlers is there."""
    process = started(*script(
        "sys.argv = ['inweights', '--version']\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())"
    ))  # fmt: skip
    assert process.communicate(timeout=60) == ("", "Interrupted.\n")
    assert process.returncode == 130


def test_an_internal_error_of_a_process(tmp_path: Path) -> None:
    process = started(*script(
        "import os\n"
        f"os.environ['INWEIGHTS_CACHE'] = {str(tmp_path)!r}\n"
        "sys.argv = ['inweights', 'bench', 'list', '--json']\n"
        "import inweights.bench\n"
        "inweights.bench.BENCHES = {'a': {1, 2}}  # no JSON"
    ))  # fmt: skip
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    assert "Internal error of inweights (TypeError: " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("args", [("bench", "list"), ("bench", "list", "--json"), ("--help",)])
def test_a_reader_that_has_gone_ends_a_command_quietly(args: tuple[str, ...]) -> None:
    process = started(sys.executable, "-m", "inweights", *args)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141  # as a shell tells that of every program that a closed pipe ends
    process.stderr.close()
