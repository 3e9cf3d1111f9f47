"""The model and the text of the benchmarks on a language model."""

from __future__ import annotations

from inweights.models import Model, Prompt, load

TEXT = (
    "The lighthouse keeper wrote every evening about the weather, the ships that passed, the birds that rested on "
    "the rail, and the small repairs that the lamp needed before the night began. "
)


def prompt(tokens: int, asked: int) -> Prompt:
    """A prompt of SmolLM2 in float32 on the CPU, with a context of `tokens` tokens and a query of `asked` tokens."""
    model: Model = load("smollm2", device="cpu")
    ids = model.tokenizer(TEXT * (2 + (tokens + asked) // 30), add_special_tokens=False)["input_ids"]
    return Prompt(model, ids[:tokens], ids[tokens : tokens + asked])
