"""`inweights patch`: writes the exact patch of a context for a query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._model import (
    Chat,
    Context,
    Device,
    Dtype,
    Keep,
    ModelName,
    Query,
    Shifted,
    Static,
    memory_json,
    open_model,
    open_prompt,
    read_texts,
    require_patch_memory,
)
from inweights.cli._output import Json, emit, say


def patch(
    context: Context,
    query: Query,
    out: Annotated[Path, typer.Option(help="The file to write.", dir_okay=False)],
    model: ModelName = "smollm2",
    keep: Keep = "",
    static: Static = False,
    chat: Chat = False,
    shifted: Shifted = False,
    dtype: Dtype = "float32",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write the weight changes that stand for a context; `verify --patch FILE` proves them again."""
    from inweights import models
    from inweights._files import require_writable

    require_writable("--out", out.parent)
    texts = read_texts(context, query, keep)
    loaded = open_model(model, dtype, device, quiet=as_json)
    prompt = open_prompt(loaded, texts, chat, shifted)
    estimate = require_patch_memory(prompt)
    made = models.patch(prompt, "static" if static else "token")
    models.save(made, out)
    report = made.report()
    results = {
        "patch": str(out),
        "layers": len(made.blocks),
        "rank": max(r["rank"] for r in report),
        "norms": [r["added_norm"] for r in report],
        "bytes": out.stat().st_size,
        "exact": made.exact,
        "mode": made.mode,
        "device": models.device_names(loaded.model),
        "amplification": [b.amplification for b in made.blocks],
        "warnings": made.warnings,
        **memory_json(estimate),
    }
    if as_json:
        emit(results)
    else:
        say(f"{out}: {len(made.blocks)} blocks, rank {results['rank']}, {out.stat().st_size / 2**20:.1f} MiB")
        for warning in made.warnings:
            say(f"Warning: {warning}")
        say("The patch encodes the context: whoever has it can recover information about the prompt.")
