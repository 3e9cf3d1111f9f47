"""`inweights families`: runs the proof on every family of transformers' causal-LM mapping."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inweights._errors import InputError
from inweights.cli._output import Json, emit, say, table
from inweights.cli._progress import progress

if TYPE_CHECKING:
    from inweights.models import Depth, Family

DEPTHS: dict[str, tuple[Depth, ...]] = {"tiny": ("tiny",), "deep": ("deep",), "both": ("tiny", "deep")}


def families(
    name: Annotated[list[str] | None, typer.Argument(help="Families, by model_type; all if none is named.")] = None,
    depth: Annotated[
        str, typer.Option(help="tiny (random), deep (12 blocks with weights as in trained checkpoints) or both.")
    ] = "tiny",
    seeds: Annotated[int, typer.Option(help="How many random models of each.", min=1)] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the table as Markdown; needs --depth both.")] = None,
    as_json: Json = False,
) -> None:
    """Prove token and static mode on small models of every causal-LM family of transformers."""
    from inweights import models
    from inweights._files import require_writable, write_atomic

    if depth not in DEPTHS:
        raise InputError(f"--depth is {depth!r}, but must be one of {', '.join(DEPTHS)}.")
    if out is not None:
        if depth != "both":
            raise InputError(f"--out writes the table of both depths, but --depth is {depth!r}: use --depth both.")
        require_writable("--out", out.parent)
    total = len(models.family_names())
    results: dict[str, list[Family]] = {"tiny": [], "deep": []}
    with progress() as bars:
        for size in DEPTHS[depth]:
            bar = bars.add_task(f"{size} families", total=len(name or ()) or total, note="")

            def after(f: Family, bar: Any = bar) -> None:
                bars.update(bar, advance=1, note=f.model_type)

            results[size] = models.families(name or (), depth=size, seeds=seeds, after=after)
    if out is not None:
        write_atomic(out, models.families_table(results["tiny"], results["deep"], total))
    exact = {size: sum(f.status == "exact" for f in each) for size, each in results.items()}
    if as_json:
        of = {
            size: {"families": [f.as_json() for f in each], "exact": exact[size], "total": total}
            for size, each in results.items()
            if size in DEPTHS[depth]
        }
        emit({**of.get("tiny", {"families": [], "exact": None, "total": total}), "deep": of.get("deep")})
        return

    def number(x: float | None) -> str:
        return "" if x is None else f"{x:.0e}"

    for size in DEPTHS[depth]:
        rows = [
            (f.model_type, f.status, number(f.token_error), number(f.static_error), number(f.control), f.reason)
            for f in results[size]
        ]
        table(("family", "status", "token", "static", "control", "reason"), rows, title=size)
        say(f"{exact[size]} of {len(results[size])} exact in both modes at {size} size; the mapping has {total}.")
