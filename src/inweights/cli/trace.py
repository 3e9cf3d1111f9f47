"""`inweights trace`: the weight updates of every layer for each prefix of the context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    open_model,
    open_prompt,
    read_texts,
)
from inweights.cli._output import Json, emit, say, table, with_former


def trace(
    context: Context,
    query: Query,
    model: ModelName = "smollm2",
    keep: Keep = "",
    chat: Chat = False,
    shifted: Shifted = False,
    leave_one_out: Annotated[bool, typer.Option("--leave-one-out", help="Leave out each token in turn.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the heat-map here (PNG), with its table beside it.")] = None,
    dtype: Dtype = "float32",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Follow the update of every layer token by token; draws a heat-map of layers and tokens."""
    from inweights import models
    from inweights._files import require_writable, write_atomic, write_csv

    if out is not None:
        if out.suffix != ".png":
            raise InputError(f"--out is {str(out)!r}, but must end in .png; the table is written beside it.")
        require_writable("--out", out.parent)
    texts = read_texts(context, query, keep)
    loaded = open_model(model, dtype, device, quiet=as_json)
    prompt = open_prompt(loaded, texts, chat, shifted, quiet=as_json)
    models.trace_memory(loaded, prompt.context_tokens, prompt.asked, prompt.folded_tokens).require(
        models.memory_fixes(loaded.device, "a shorter --context or --query", dtype=loaded.dtype)
    )
    result = models.trace(prompt, leave_one_out=leave_one_out)
    if out is not None:
        from inweights.report import heatmap

        picture = heatmap(result.norms.tolist(), result.tokens, "what each context token adds to the weights")
        write_atomic(out, picture)
        rows = [
            (layer, i, token, *(float(t[k, i]) for t in (result.norms, result.totals, result.output_norms)))
            for k, layer in enumerate(result.layers)
            for i, token in enumerate(result.tokens)
        ]
        write_csv(out.with_suffix(".csv"), ("layer", "i", "token", "norm", "total", "output_norm"), rows)
    if as_json:
        values = {
            "tokens": result.tokens,
            "layers": result.layers,
            "norms": result.norms.tolist(),
            "totals": result.totals.tolist(),
            "output_norms": result.output_norms.tolist(),
            "output_totals": result.output_totals.tolist(),
            "seconds": result.seconds,
            "computation": result.how,
            "device": models.device_names(loaded.model),
        }
        emit(with_former(values, how="computation"))
        return
    words = loaded.tokenizer.convert_tokens_to_string
    rows_shown = [(repr(words([token])), str(i), f"{m:.3f}") for token, i, m in result.top()]
    table(("token, largest first", "position i", "mean ‖ΔWᵢ₊₁ − ΔWᵢ‖ over layers"), rows_shown)
    way = "all prefixes packed into few passes" if result.how == "packed" else result.how
    say(f"{len(result.tokens)} tokens × {len(result.layers)} layers in {result.seconds:.1f} s ({way}).")
    if out is not None:
        say(f"{out}, {out.with_suffix('.csv')}")
