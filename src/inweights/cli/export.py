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
    out: Annotated[Path, typer.Option(help="The folder to write (a file for gguf).")],
    form: Annotated[str, typer.Option("--format", help="peft, gguf or merged.")] = "peft",
    model: ModelName = "smollm2",
    strength: Annotated[float, typer.Option(help="Scales the changes of an adapter.")] = 1.0,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Write a patch as a LoRA adapter (PEFT, GGUF) or as a merged checkpoint, where it can be one."""
    from inweights import models
    from inweights._files import folder_for

    if form not in ("peft", "gguf", "merged"):
        raise InputError(f"--format is {form!r}, but must be peft, gguf or merged.")
    if form == "merged" and strength != 1.0:
        raise InputError("--strength scales adapters only: use --format peft or gguf.")
    if form == "gguf" and out.is_dir():
        raise InputError(f"--out is the folder {str(out)!r}, but a GGUF adapter is a file: name one.")
    folder_for("--out", out.parent)
    loaded = open_model(model, dtype, device)
    made = models.load_patch(patch, loaded)
    why = models.portable(made)
    if form == "merged":
        path = models.merged(made, loaded, out)
    else:
        path = (models.to_peft if form == "peft" else models.to_gguf)(made, loaded, out, strength)
    if as_json:
        emit({"path": str(path), "format": form, "portable": not why, "reason": why})
    else:
        say(f"{path}: {form}")
