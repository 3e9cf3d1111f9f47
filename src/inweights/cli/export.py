"""`inweights export`: a patch for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights._errors import InputError
from inweights.cli._model import Device, Dtype, ModelName, open_model
from inweights.cli._output import Json, emit, say


def export(
    patch: Annotated[Path, typer.Argument(help="A patch file, from `inweights patch`.", metavar="PATCH")],
    out: Annotated[Path, typer.Option(help="The folder to write.", file_okay=False)],
    form: Annotated[str, typer.Option("--format", help="peft or merged.")] = "peft",
    model: ModelName = "smollm2",
    strength: Annotated[float, typer.Option(help="Scales the changes (peft only).")] = 1.0,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Write a patch as a PEFT LoRA adapter or as a merged checkpoint, where it can be one."""
    from inweights import models

    if form not in ("peft", "merged"):
        raise InputError(f"--format is {form!r}, but must be peft or merged.")
    if form == "merged" and strength != 1.0:
        raise InputError("--strength scales adapters only: use --format peft.")
    loaded = open_model(model, dtype, device)
    made = models.load_patch(patch, loaded)
    why = models.portable(made)
    path = models.to_peft(made, loaded, out, strength) if form == "peft" else models.merged(made, loaded, out)
    if as_json:
        emit({"path": str(path), "format": form, "portable": not why, "reason": why})
    else:
        say(f"{path}: {form}")
