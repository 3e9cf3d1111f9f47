"""`inweights patch`: writes the exact patch of a context for a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights._errors import InputError
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

if TYPE_CHECKING:
    from inweights.models import Patch, Prompt, Proof


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
    """Write the weight changes that replace a context, and prove them; `verify --patch FILE` proves them again."""
    from inweights import models
    from inweights._files import require_writable

    if out.exists():
        raise InputError(f"--out is the file {str(out)!r}, which exists already: name a new one.")
    require_writable("--out", out.parent)
    texts = read_texts(context, query, keep)
    loaded = open_model(model, dtype, device, quiet=as_json)
    prompt = open_prompt(loaded, texts, chat, shifted, quiet=as_json)
    estimate = require_patch_memory(prompt)
    made = models.patch(prompt, "static" if static else "token")
    proof, warnings = _proved(prompt, made)
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
        "verdict": proof.verdict if proof else "NOT-PROVED",
        "max_abs_logit_error": proof.max_abs_logit_error if proof else None,
        "bare_max_abs_logit_error": proof.bare_max_abs_logit_error if proof else None,
        "warnings": warnings,
        **memory_json(estimate),
    }
    if as_json:
        emit(results)
    else:
        size = out.stat().st_size / 2**20
        say(f"{out}: {len(made.blocks)} blocks, rank {results['rank']}, {size:.1f} MiB; {results['verdict']}")
        for warning in warnings:
            say(f"Warning: {warning}")
        say("The patch encodes the context: whoever has it can recover information about the prompt.")
    if results["verdict"] == "FAIL":
        raise typer.Exit(1)


def _proved(prompt: Prompt, made: Patch) -> tuple[Proof | None, list[str]]:
    """The proof of a patch, if the model allows one, and warnings."""
    from inweights.models import verify

    try:
        proof = verify(prompt, made)
    except InputError as error:  # several query tokens, and a cache that cannot be stepped over
        return None, [*made.warnings, f"The patch could not be proved. {error}"]
    if proof.verdict != "FAIL":
        return proof, made.warnings
    why = "it is not exact, as the inputs of the query tokens are not independent" if not made.exact else "see verify"
    return proof, [
        *made.warnings,
        f"The patch fails its proof ({why}): with it, logits are off by {proof.max_abs_logit_error:.1e}, and without "
        f"it by {proof.bare_max_abs_logit_error:.1e}.",
    ]
