"""`inweights generate`: prompted, bare, patched and folded text side by side."""

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
    open_model,
    open_prompt,
    read_texts,
)
from inweights.cli._output import Json, emit, say

if TYPE_CHECKING:
    from inweights.models import Prompt


def generate(
    context: Context,
    query: Query,
    model: ModelName = "smollm2",
    keep: Keep = "",
    chat: Chat = False,
    shifted: Shifted = False,
    new_tokens: Annotated[int, typer.Option(help="How many tokens.", min=1)] = 20,
    adapter: Annotated[Path | None, typer.Option(help="A folded adapter, to answer without the context.")] = None,
    strength: Annotated[float, typer.Option(help="Scales the adapter.")] = 1.0,
    dtype: Dtype = "float32",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Continue the text with the context, without it, with exact weights in its place, and with a folded adapter."""
    from inweights import models

    texts = read_texts(context, query, keep)
    loaded = open_model(model, dtype, device, quiet=as_json)
    prompt = open_prompt(loaded, texts, chat, shifted)
    models.generate_memory(loaded, prompt.ids.shape[1], new_tokens).require(
        models.memory_fixes(loaded.device, "a shorter --context", "fewer --new-tokens", dtype=loaded.dtype)
    )
    folded = _folded(prompt, adapter, strength, new_tokens, chat) if adapter else None
    result = models.generate(prompt, new_tokens)
    words: dict[str, str | None] = {
        name: loaded.tokenizer.decode(getattr(result, name)) for name in ("prompted", "bare", "patched")
    }
    words["folded"] = folded
    if as_json:
        emit({**words, "tokens_match": result.matching, "device": models.device_names(loaded.model)})
        return
    for name, text in words.items():
        if text is not None:
            say(f"{name:>9}: {text!r}")
    say(f"{result.matching:.0%} of {new_tokens} tokens are equal, prompted and patched.")


def _folded(prompt: Prompt, adapter: Path, strength: float, new_tokens: int, chat: bool) -> str:
    """What the bare query gives under an adapter, positions from 0: what a server would say."""
    import torch

    from inweights.folding import load_fold
    from inweights.models import plain

    fold = load_fold(adapter, prompt.model) * strength
    if fold.card.prompt_sha256 and fold.card.chat != chat:
        made, fix = ("turns of a chat", "add --chat") if fold.card.chat else ("plain text", "leave --chat out")
        raise InputError(f"The adapter {str(adapter)!r} was folded from {made}: {fix}.")
    ids = prompt.reduced_ids
    positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
    with torch.no_grad(), fold.applied(prompt.model) as net:
        text = plain(net, ids, positions, new_tokens)
    return str(prompt.model.tokenizer.decode(text))
