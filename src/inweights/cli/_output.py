"""Output of all commands: tables and progress bars for people, one JSON object for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from inweights._errors import InputError
from inweights._files import folder_for, locked, require_writable

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Seed = Annotated[int, typer.Option(help="The seed of everything random.", min=0, max=2**32 - 1)]

UNFINISHED = ".unfinished"
"""The end of the name of a folder that an interrupted job resumes from."""


def emit(result: dict[str, Any]) -> None:
    """Prints a JSON object on standard output. Non-finite numbers become null, as standard JSON has none."""
    sys.stdout.write(json.dumps(_finite(result), allow_nan=False) + "\n")


def with_former(values: dict[str, Any], **names: str) -> dict[str, Any]:
    """JSON values that also have their keys' former names, for scripts that rely on them: `former="present"`."""
    return values | {former: values[present] for former, present in names.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value


def say(text: str) -> None:
    """Prints a line of text."""
    sys.stdout.write(text + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Prints a table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    named = any(header)  # a table of names and values has no header
    shown = Table(
        title=title or None, title_justify="left", box=box.SIMPLE_HEAD if named else None, show_header=named,
        pad_edge=not named, padding=(0, 1) if named else (0, 2, 0, 0),
    )  # fmt: skip
    for i, name in enumerate(header):
        number = any(row[i][:1].isdigit() for row in rows)
        shown.add_column(name, justify="right" if i and number else "left", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    console = Console()
    if not console.is_terminal:  # in a file or a pipe, a table may be wide
        console = Console(width=200)
    console.print(shown)


def require_new(option: str, folder: Path) -> None:
    """Raises an error, before any work, if a folder is not empty or could not be written."""
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{option} is the folder {str(folder)!r}, which is not empty: name a new one.")
    require_writable(option, folder.parent)


@contextmanager
def reserved(option: str, out: Path) -> Iterator[Path]:
    """A folder beside `out` for work in progress; a second job with the same `out` is refused while this one runs.

    The folder stays if the work is interrupted. With nothing in it, it is removed, as are folders made for it.
    """
    above = [folder for folder in out.absolute().parents if not folder.exists()]
    folder = folder_for(option, out.with_name(out.name + UNFINISHED))
    try:
        with locked(folder):
            yield folder
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command resumes.") from None
    finally:
        with suppress(OSError):  # not empty: there is something to resume from
            folder.rmdir()
            for each in above:
                each.rmdir()
