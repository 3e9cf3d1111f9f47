"""`inweights export`: writes a patch or an adapter in formats of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights._errors import InputError
from inweights._files import require_writable
from inweights.cli._model import Device, Dtype, ModelName, open_model, require_strength
from inweights.cli._output import Json, emit, require_new, say

if TYPE_CHECKING:
    from inweights.models import Model


def export(
    source: Annotated[
        Path,
        typer.Argument(
            help="A patch file, from `inweights patch`, or the folder of a LoRA adapter.", metavar="ADAPTER_OR_PATCH"
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write (a file for gguf).")],
    form: Annotated[str, typer.Option("--format", help="peft, gguf or merged.")] = "peft",
    model: ModelName = "smollm2",
    strength: Annotated[float, typer.Option(help="Scales the changes (a patch cannot be scaled and merged).")] = 1.0,
    dtype: Dtype = "float32",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write a patch or an adapter as a LoRA adapter (PEFT, GGUF) or as a merged checkpoint, where that is possible."""
    if form not in ("peft", "gguf", "merged"):
        raise InputError(f"--format is {form!r}, but must be peft, gguf or merged.")
    if not source.exists():
        raise InputError(f"There is no patch file or adapter folder {str(source)!r}.")
    if form == "merged" and strength != 1.0 and not source.is_dir():
        raise InputError("--strength scales adapters only: use --format peft or gguf.")
    require_strength(strength)
    _require_new(out, form)
    write = _adapter if source.is_dir() else _patch
    from inweights.models import device_names

    loaded = open_model(model, dtype, device, quiet=as_json)
    path, why, warnings = write(source, loaded, form, out, strength)
    if as_json:
        emit({
            "path": str(path), "format": form, "portable": not why, "reason": why, "warnings": warnings,
            "device": device_names(loaded.model),
        })  # fmt: skip
    else:
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        size = sum(p.stat().st_size for p in files) / 2**20
        say(f"{path}: {form}, {size:.1f} MiB; docs/serving.md shows how to load it")
        for warning in warnings:
            say(f"Warning: {warning}")


def _require_new(out: Path, form: str) -> None:
    """Raises an error, before any work, if `--out` is there already, of the wrong kind, or could not be written."""
    if form != "gguf":
        if out.exists() and not out.is_dir():
            raise InputError(f"--out is the file {str(out)!r}, but {form} is a folder: name one.")
        return require_new("--out", out)
    if out.is_dir():
        raise InputError(f"--out is the folder {str(out)!r}, but a GGUF adapter is a file: name one.")
    if out.exists():
        raise InputError(f"--out is the file {str(out)!r}, which exists already: name a new one.")
    return require_writable("--out", out.parent)


TEMPLATE = (
    "the chat template of this model adds a system turn of its own where there is none, but the adapter was folded for "
    "chats without one: send the text that docs/serving.md shows to a completion endpoint, not to the chat endpoint."
)


def _adapter(folder: Path, model: Model, form: str, out: Path, strength: float) -> tuple[Path, str, list[str]]:
    """Writes an adapter in another format; returns its path, an empty reason, as this is always possible, and
    warnings."""
    from inweights.folding import adds_system_turn, load_fold

    fold = strength * load_fold(folder, model)
    tok = model.tokenizer
    if form == "merged":
        from transformers import AutoTokenizer

        path = fold.to_merged(out, model)
        tok = tok and AutoTokenizer.from_pretrained(path)
    else:
        path = (fold.save_pretrained if form == "peft" else fold.to_gguf)(out, model)
    return path, "", [TEMPLATE] if fold.card.chat and tok is not None and adds_system_turn(tok) else []


def _patch(file: Path, model: Model, form: str, out: Path, strength: float) -> tuple[Path, str, list[str]]:
    """Writes a patch; returns its path and, if it cannot be an adapter, the reason."""
    from inweights import models

    made = models.Patch.load(file, model)
    why = models.portable(made)
    if form == "merged":
        return models.merged(made, model, out), why, []
    return (models.to_peft if form == "peft" else models.to_gguf)(made, model, out, strength), why, []
