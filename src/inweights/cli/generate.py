"""`inweights generate`: prompted, bare and patched text side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from inweights.cli._model import Chat, Context, Device, Dtype, Keep, ModelName, Query, Shifted, open_model, open_prompt
from inweights.cli._output import Json, emit, say


def generate(
    context: Context,
    query: Query,
    model: ModelName = "smollm2",
    keep: Keep = "",
    chat: Chat = False,
    shifted: Shifted = False,
    new_tokens: Annotated[int, typer.Option(help="How many tokens.", min=1)] = 20,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Continue the text with the context, without it, and with the weights in its place."""
    from inweights import models

    loaded = open_model(model, dtype, device)
    prompt = open_prompt(loaded, context, query, keep, chat, shifted)
    found = models.generate(prompt, new_tokens)
    words = {name: loaded.tokenizer.decode(getattr(found, name)) for name in ("prompted", "bare", "patched")}
    if as_json:
        emit({**words, "folded": None, "tokens_match": found.matching})
        return
    for name, said in words.items():
        say(f"{name:>9}: {said!r}")
    say(f"{found.matching:.0%} of {new_tokens} tokens are equal, prompted and patched.")
