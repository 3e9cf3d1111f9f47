"""`inweights verify`: proves the equivalence on a model and a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from inweights.cli._output import Json, emit, say, table

if TYPE_CHECKING:
    from inweights.models import Generated, Patch, Prompt, Proof


def verify(
    context: Context,
    query: Query,
    model: ModelName = "smollm2",
    keep: Keep = "",
    static: Static = False,
    chat: Chat = False,
    shifted: Shifted = False,
    new_tokens: Annotated[int, typer.Option(help="Also generate this many tokens both ways.", min=0)] = 0,
    patch: Annotated[Path | None, typer.Option(help="Prove this patch file instead of a new patch.")] = None,
    dtype: Dtype = "float32",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Prove that the context is a weight change: the same logits from the query alone, on your model and prompt."""
    from inweights import models

    texts = read_texts(context, query, keep)
    loaded = open_model(model, dtype, device, quiet=as_json)
    prompt = open_prompt(loaded, texts, chat, shifted, quiet=as_json)
    estimate = require_patch_memory(prompt)
    made = models.Patch.load(patch, loaded) if patch else models.patch(prompt, "static" if static else "token")
    proof = models.verify(prompt, made)
    generated = models.generate(prompt, new_tokens) if new_tokens else None
    numbers = _numbers(prompt, made, proof, generated) | memory_json(estimate)
    if as_json:
        emit(numbers)
    else:
        _show(prompt, made, proof, numbers, new_tokens)
    if "FAIL" in (proof.verdict, numbers["tokens_verdict"]):
        raise typer.Exit(1)


def _numbers(prompt: Prompt, made: Patch, proof: Proof, generated: Generated | None) -> dict[str, Any]:
    """All measurements, for JSON."""
    from inweights.models import device_names, generated_verdict

    numbers = proof.as_json() | {
        "mode": made.mode,
        "folded_tokens": prompt.folded_tokens,
        "query_tokens": prompt.asked,
        "tokens": prompt.describe(),
        "device": device_names(prompt.model.model),
        "amplification": [b.amplification for b in made.blocks],
        "warnings": made.warnings,
    }
    if made.mode == "static":
        worst = max(made.blocks, key=lambda b: b.condition)
        numbers |= {"exact": made.exact, "rank": max(b.rank for b in made.blocks), "condition": worst.condition}
    return numbers | {
        "tokens_match": generated.matching if generated else None,
        "tokens_verdict": generated_verdict(prompt, generated) if generated else None,
    }


def _show(prompt: Prompt, made: Patch, proof: Proof, numbers: dict[str, Any], new_tokens: int) -> None:
    """Prints the measurements as a table, with the verdict and warnings."""
    rows = [
        ("largest logit error, patched", f"{proof.max_abs_logit_error:.1e}"),
        ("largest logit error, bare (control)", f"{proof.bare_max_abs_logit_error:.3g}"),
        ("most likely next tokens equal", "yes" if proof.top1_match else "no"),
        ("blocks patched", str(proof.layers)),
        ("largest amplification of a block", _largest(numbers["amplification"])),
        ("context tokens replaced, query tokens", f"{prompt.folded_tokens}, {prompt.asked}"),
        ("dtype, mode, device", f"{proof.dtype}, {made.mode}, {numbers['device']}"),
        (
            "memory at most, estimated",
            f"{numbers['memory_peak'] / 2**30:.2f} GiB, {numbers['memory_estimate'] / 2**30:.2f} GiB",
        ),
    ]
    if new_tokens:
        rows.append(
            (f"of {new_tokens} generated tokens equal", f"{numbers['tokens_match']:.0%}, {numbers['tokens_verdict']}")
        )
    table(("", ""), rows)
    say(f"{proof.verdict} (allowed: {proof.tolerance:.0e}, and 1% of the control)")
    for warning in made.warnings:
        say(f"Warning: {warning}")
    if not made.exact:
        last = made.blocks[-1]
        say(f"Not exact: the inputs of {last.block.name} are not independent (residual {last.residual:.1e}).")


def _largest(gains: list[float | None]) -> str:
    known = [g for g in gains if g is not None]
    return f"{max(known):.3g}" if known else "not measured"
