"""`inweights report`: one HTML page of the results in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._output import Json, emit, say

Folder = Annotated[
    Path,
    typer.Argument(
        help="A folder with results: the JSON that commands print, the folder of fold, compare or claims run.",
        metavar="DIR",
        show_default=False,
    ),
]


def report(folder: Folder, as_json: Json = False) -> None:
    """Write report.html: one self-contained page of the results in a folder; tables of its figures are beside it."""
    from inweights.report import write_report

    path, left_out = write_report(folder)
    if as_json:
        emit({"report": str(path), "left_out": left_out})
        return
    for sentence in left_out:
        typer.echo(f"Left out: {sentence}", err=True)
    say(f"Report: {path}")
