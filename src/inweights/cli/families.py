"""`inweights families`: the proof on every family of transformers' causal-LM mapping, at tiny size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._output import Json, emit, progress, say, table


def families(
    name: Annotated[list[str] | None, typer.Argument(help="Families, by model_type; all if none is named.")] = None,
    seeds: Annotated[int, typer.Option(help="How many random models of each.", min=1)] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the table as Markdown to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Prove token and static mode on tiny random models of every causal-LM family of transformers."""
    from inweights import models
    from inweights._files import folder_for, write_atomic

    if out is not None:
        folder_for("--out", out.parent)
    total = len(models.family_names())
    with progress() as bars:
        bar = bars.add_task("families", total=len(name or ()) or total, note="")
        found = models.families(name or (), seeds=seeds, after=lambda f: bars.update(bar, advance=1, note=f.model_type))
    exact = sum(f.status == "exact" for f in found)
    if out is not None:
        write_atomic(out, models.families_table(found, total))
    if as_json:
        emit({"families": [f.as_json() for f in found], "exact": exact, "total": total})
        return

    def number(x: float | None) -> str:
        return "" if x is None else f"{x:.0e}"

    rows = [
        (f.model_type, f.status, number(f.token_error), number(f.static_error), number(f.control), f.reason)
        for f in found
    ]
    table(("family", "status", "token", "static", "control", "reason"), rows)
    say(f"{exact} of {len(found)} exact in both modes; the mapping has {total}.")
