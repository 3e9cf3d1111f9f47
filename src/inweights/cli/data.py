"""`inweights data`: lists and downloads data sets of small tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._output import Json, emit, say, table

data = typer.Typer(help="Data sets of small tasks: list and download them.", no_args_is_help=True)


@data.command("list")
def list_command(as_json: Json = False) -> None:
    """List the data sets, without using the network."""
    from inweights.data import DATA

    results = [
        {
            "name": s.name,
            "description": s.description,
            "package": s.package,
            "licence": s.licence,
            "cached": s.cached,
        }
        for s in DATA.values()
    ]
    if as_json:
        emit({"data": results})
        return
    rows = [[("no", "yes")[v] if isinstance(v, bool) else str(v) for v in each.values()] for each in results]
    table(("name", "description", "package", "licence", "cached"), rows)


@data.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="The data set; `inweights data list` names them all.", metavar="NAME")],
    out: Annotated[
        Path | None, typer.Option(help="Write the table to this file instead of the cache.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch a data set, once, and write its pairs as a CSV table with the columns input and output."""
    from inweights._errors import InputError
    from inweights._fetch import cache
    from inweights._files import require_writable, write_csv
    from inweights.data import pairs, source

    wanted = source(name)
    if out is None:
        out = cache() / "data" / f"{name}.csv"
        require_writable("The cache (INWEIGHTS_CACHE)", out.parent)
    elif out.is_dir():
        raise InputError(f"--out is {str(out)!r}, which is a folder: name a file.")
    else:
        require_writable("--out", out.parent)
    rows = pairs(name)
    write_csv(out, ("input", "output"), rows)
    if as_json:
        emit({"path": str(out), "rows": len(rows), "licence": wanted.licence})
    else:
        say(f"{len(rows)} pairs ({wanted.licence}): {out}")
