"""Exit codes of commands: 0 holds, 1 does not hold, 2 bad input, 3 internal error, 130 interrupted; no tracebacks."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer
import typer.main

from inweights import __version__
from inweights._errors import InputError, out_of_memory, shown
from inweights._fetch import cache

BAD_INPUT, INTERNAL, INTERRUPTED = 2, 3, 130
PIPE_CLOSED = 141
"""128 + SIGPIPE, as shells report a program that writes to a closed pipe, such as `| head`."""

PATH_SHOWN = 300
"""The number of characters of a path that an error message shows."""

TRACEBACK = "INWEIGHTS_TRACEBACK"
"""The environment variable that, set to any value, also prints the traceback of an internal error."""

_EXTRAS = {
    "accelerate": "peft", "fastapi": "app", "gguf": "gguf", "matplotlib": "lab", "numpyro": "bayes", "peft": "peft",
    "pyarrow": "data", "ray": "sweep", "sklearn": "lab", "uvicorn": "app",
}  # fmt: skip
"""Packages that may be missing, and the extra of this package that installs them."""


def exit_code(app: Callable[[], object]) -> int:
    """Calls `app` and returns its exit code; an exception becomes a message on standard error."""
    _open_streams()
    try:
        _check_arguments()
        code = _called(app)
        sys.stdout.flush()  # here, so that a closed pipe is handled below
        return code
    except KeyboardInterrupt as error:
        return _end(f"Interrupted. {error}".strip(), INTERRUPTED)
    except BrokenPipeError:
        return _pipe_closed()
    except InputError as error:
        return _end(_with_options(str(error), app), BAD_INPUT)
    except OSError as error:  # e.g. a full disk, or a file where a folder is expected
        where = f" {shown(error.filename, PATH_SHOWN)}" if error.filename else ""
        return _end(f"A file could not be used{where}: {error.strerror or error}.", BAD_INPUT)
    except Exception as error:
        if out_of_memory(error):
            less = "ask for less, e.g. a smaller batch, or fewer prompts"
            return _end(f"There is not enough memory for this: {less}.", BAD_INPUT)
        if isinstance(error, ModuleNotFoundError) and (extra := _EXTRAS.get(str(error.name).partition(".")[0])):
            return _end(f"This needs the package {error.name}: pip install 'inweights[{extra}]'.", BAD_INPUT)
        return _internal(error)


def _called(app: Callable[[], object]) -> int:
    """The exit code of `app`. Exceptions that typer and rich turned into an exit are raised again."""
    try:
        app()
    except SystemExit as end:
        cause = end.__context__
        while cause is not None:
            # rich and typer exit with 1 on a closed pipe or at the end of input, and without a message on Ctrl-C.
            if isinstance(cause, KeyboardInterrupt | BrokenPipeError | EOFError):
                raise cause from None
            cause = cause.__cause__ or cause.__context__
        if isinstance(end.code, str):
            return _end(end.code, 1)
        return end.code or 0
    return 0


def _with_options(sentence: str, app: Callable[[], object]) -> str:
    """An error of the library, which names its argument, with the option of the command: `rank` becomes --rank."""
    if not isinstance(app, typer.Typer):
        return sentence
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    options = {p.name: p.opts[0] for p in command.params if p.opts[0].startswith("--")}
    return re.sub(r"(?m)^`(\w+)`(?= is )", lambda m: options.get(m[1], m[0]), sentence)


def _open_streams() -> None:
    """Makes standard output and error writable for any encoding, and also if they were closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  (open until the end)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _check_arguments() -> None:
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(f"The argument {shown(argument)} is not UTF-8 text: write it so, or use @FILE.") from None


def _end(sentence: str, code: int) -> int:
    with suppress(OSError, ValueError):  # standard error may be closed
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
    return code


def _pipe_closed() -> int:
    """Ends without a message; remaining output is discarded, so that Python does not complain on exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _internal(error: Exception) -> int:
    """Writes the traceback to a file and prints how to report the error."""
    command = shlex.join(["inweights", *sys.argv[1:]])
    trace = "".join(traceback.format_exception(error))
    if os.environ.get(TRACEBACK):
        _end(trace.rstrip(), INTERNAL)
    place = _written(f"{command}\n{_versions()}\n\n{trace}")
    where = f"with the file {str(place)!r}, which holds the traceback" if place else f"with {TRACEBACK}=1 set"
    about = f"{type(error).__name__}: {shown(str(error))}"
    return _end(
        f"Internal error of inweights ({about}): your input is not to blame. Please report it {where} (read it first: "
        f"it repeats the command), the command `{command if len(command) <= 200 else command[:200] + '…'}` and the "
        f"versions {_versions()}. {TRACEBACK}=1 prints the traceback here.",
        INTERNAL,
    )


def _versions() -> str:
    names = []
    for package in ("torch", "transformers"):
        with suppress(PackageNotFoundError):
            names.append(f"{package} {version(package)}")
    return ", ".join([f"inweights {__version__}", f"Python {platform.python_version()}", *names])


def _written(report: str) -> Path | None:
    """Writes the report to a new file that only the user can read, in the cache or else in the temporary folder."""
    for folder in (cache() / "errors", Path(tempfile.gettempdir())):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            now = time.strftime("%Y-%m-%d-%H%M%S-")
            handle, name = tempfile.mkstemp(prefix=f"inweights-{now}", suffix=".txt", dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(report)
            return Path(name)
    return None
