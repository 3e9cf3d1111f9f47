"""`inweights demo`: the main job from end to end, with a page of what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._output import Json, Seed, emit, progress, say, table


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write into.", file_okay=False)] = Path("demo"),
    steps: Annotated[int, typer.Option(help="Training steps of the one-block transformer.", min=1)] = 2000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train a small transformer, turn its prompts into weights, and write a page of what came out."""
    from inweights._files import folder_for
    from inweights.lab import OneBlock, section4
    from inweights.report import section4_summary, write_section4

    folder_for("--out", out)
    if not as_json:
        say(f"Training a one-block transformer to do linear regression in context, {steps} steps …")
    with progress() as bars:
        bar = bars.add_task("training", total=steps, note="")
        found = section4(
            OneBlock(steps=steps, seed=seed),
            lambda step, loss: bars.update(bar, completed=step, note=f"test loss {loss:.3f}"),
        )
    page = write_section4(found, out)
    if as_json:
        emit({"report": str(page), "holds": found.holds, **found.numbers()})
    else:
        table(("", "measured", "to compare"), section4_summary(found))
        say(f"Report: {page}")
    if not found.holds:
        typer.echo("Prompt and weights disagree, or the control agreed too: the theorem did not hold here.", err=True)
        raise typer.Exit(1)
