"""Output of all commands: tables and progress bars for people, one JSON object for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inweights._errors import InputError
from inweights._files import require_writable

if TYPE_CHECKING:
    from rich.progress import Progress

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Seed = Annotated[int, typer.Option(help="The seed of everything random.", min=0, max=2**32 - 1)]


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

    shown = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        number = any(row[i][:1].isdigit() for row in rows)
        shown.add_column(name, justify="right" if i and number else "left", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    console = Console()
    if not console.is_terminal:  # in a file or a pipe, a table may be wide
        console = Console(width=200)
    console.print(shown)


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress bars on standard error; hidden if it is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield bars


def require_new(option: str, folder: Path) -> None:
    """Raises an error, before any work, if a folder is not empty or could not be written."""
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{option} is the folder {str(folder)!r}, which is not empty: name a new one.")
    require_writable(option, folder.parent)
