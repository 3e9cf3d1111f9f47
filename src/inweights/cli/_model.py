"""What the commands on language models have in common: their options, and texts from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from inweights._read import read_text

if TYPE_CHECKING:
    from inweights.models import Estimate, Model, Prompt

ModelName = Annotated[
    str, typer.Option("--model", help="smollm2, a hub id, a folder, or a .gguf file.", metavar="MODEL")
]
Dtype = Annotated[str, typer.Option(help="float64, float32, bfloat16 or float16.")]
Device = Annotated[
    str, typer.Option(help="auto (cuda, else mps, else cpu), cpu, cuda, cuda:N, mps, or spread (by accelerate).")
]
Context = Annotated[str, typer.Option(help="What is folded: text, or @FILE.", metavar="TEXT")]
Query = Annotated[str, typer.Option(help="What is read after it: text, or @FILE.", metavar="TEXT")]
Keep = Annotated[
    str, typer.Option(help="A piece of the context that stays a prompt; it must occur once.", metavar="TEXT")
]
Chat = Annotated[bool, typer.Option("--chat", help="Context is the system turn, query a user turn.")]
Shifted = Annotated[
    bool, typer.Option("--shifted", help="Number what is left from 0, as a server would, instead of in place.")
]
Static = Annotated[bool, typer.Option("--static", help="One weight change for the whole query.")]


def text(argument: str, value: str) -> str:
    """The text itself, or that of the file that `@FILE` names."""
    return read_text(Path(value[1:]), f"The file of {argument}") if value.startswith("@") else value


def open_model(name: str, dtype: str, device: str, *, quiet: bool) -> Model:
    """Loads the model; which device was chosen is said on standard error, unless `quiet` or named by the user."""
    from inweights.models import describe_device, load, return_freed_memory

    return_freed_memory()
    loaded = load(name, dtype=dtype, device=device)
    if device in ("auto", "spread") and not quiet:
        typer.echo(f"Device: {describe_device(loaded.model)}, chosen by --device {device}.", err=True)
    return loaded


def require_patch_memory(prompt: Prompt) -> Estimate:
    """What patching and proving will take; refused, with the options that help, if there is not as much."""
    from inweights.models import memory_fixes, patch_memory

    result = patch_memory(prompt.model, prompt.ids.shape[1], len(prompt.left), prompt.asked)
    model, helping = prompt.model, "a shorter --context or --query"
    return result.require(memory_fixes(model.device, helping, dtype=model.dtype))


def memory_json(estimate: Estimate) -> dict[str, int]:
    """Bytes at the peak: as estimated before the work, and as measured after it."""
    from inweights.models import peak_memory

    return {"memory_estimate": estimate.peak, "memory_peak": peak_memory(estimate.device)}


class Texts(NamedTuple):
    """What a prompt is made of, read from its files."""

    context: str
    query: str
    keep: str | None


def read_texts(context: str, query: str, keep: str = "") -> Texts:
    """The texts of the options; read before a model is loaded, so that a wrong name costs no time."""
    return Texts(text("--context", context), text("--query", query), text("--keep", keep) if keep else None)


def open_prompt(model: Model, texts: Texts, chat: bool = False, shifted: bool = False) -> Prompt:
    """The prompt of the options."""
    from inweights.models import Prompt

    positions: Literal["shifted", "absolute"] = "shifted" if shifted else "absolute"
    return Prompt(model, texts.context, texts.query, keep=texts.keep, chat=chat, positions=positions)
