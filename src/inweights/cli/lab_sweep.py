"""`inweights lab sweep`: trains a recipe with every combination of some settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._output import Json, emit, say, table
from inweights.cli._progress import progress
from inweights.cli.lab_load import Load

Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Replace a value of the recipe, e.g. steps=1000; repeatable.", metavar="KEY=VALUE"),
]


def sweep_command(
    name: Annotated[str, typer.Argument(help="A recipe by name, or a TOML file.", metavar="RECIPE")],
    out: Annotated[Path, typer.Option(help="The folder of the trained models and the table.", file_okay=False)],
    grid: Annotated[
        list[str] | None,
        typer.Option(help="Values of a setting, e.g. model.layers=1,2,4; repeatable.", metavar="KEY=V1,V2"),
    ] = None,
    change: Changes = None,
    load: Load = None,
    jobs: Annotated[int | None, typer.Option(help="Cells at a time; one for each core by default.", min=1)] = None,
    engine: Annotated[str, typer.Option(help="local: processes of this machine. ray: a cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Ray head; without it, Ray is started here.")
    ] = None,
    prompts: Annotated[int, typer.Option(help="How many prompts to measure on.", min=2)] = 1280,
    as_json: Json = False,
) -> None:
    """Train a recipe with every combination of some settings; a stopped sweep resumes."""
    from inweights.lab import load_own as load_own
    from inweights.lab.sweep import cells, sweep, table_rows, write_table
    from inweights.lab.training import read

    own = load_own(load)
    wanted = cells(read(name, change), grid or [])
    with progress() as bars:
        bar = bars.add_task("sweeping", total=len(wanted), note="")

        def after(done: int) -> None:
            bars.update(bar, completed=done, note=f"{done} of {len(wanted)} cells")

        results = sweep(wanted, out, engine=engine, jobs=jobs, address=address, prompts=prompts, own=own, after=after)
    path = write_table(out, wanted, results)
    result = table_rows(out, wanted, results)
    failed = [row for row in result if row["status"] == "failed"]
    if as_json:
        emit({"cells": result, "engine": engine, "table": str(path)})
    else:
        shown = [
            (*(str(v) for v in r["settings"].values()), r["status"], *_numbers(r["loss"], r["curve"]), r["message"])
            for r in result
        ]
        table((*wanted[0].settings, "status", "loss", "first error", "last error", ""), shown, title=name)
        say(str(path))
    if failed:
        raise typer.Exit(1)


def _numbers(loss: float | None, curve: list[float]) -> tuple[str, ...]:
    return ("", "", "") if loss is None else tuple(f"{v:.4f}" for v in (loss, curve[0], curve[-1]))
