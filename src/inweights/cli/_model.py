"""Common parts of the commands on language models: options, loading, and texts from files."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from inweights._errors import InputError
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
Context = Annotated[str, typer.Option(help="The prompt that the weights replace: text, or @FILE.", metavar="TEXT")]
Query = Annotated[str, typer.Option(help="The text after the context: text, or @FILE.", metavar="TEXT")]
Keep = Annotated[
    str, typer.Option(help="A part of the context that stays in the prompt; it must occur once.", metavar="TEXT")
]
CHAT = "Context is the system turn, query a user turn, as in fold and evaluate; by default both are plain text here."
Chat = Annotated[bool, typer.Option("--chat", help=CHAT)]
Shifted = Annotated[
    bool,
    typer.Option(
        "--shifted",
        help="Without the context, number token positions from 0, as a server would; by default they are those "
        "behind the context.",
    ),
]
Strength = Annotated[
    float, typer.Option(help="Multiplies the adapter: 0 is no effect, 1 that of the prompt; -10 to 10.")
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="Put prompt and query together as plain text, as verify, patch, trace and generate do; by default they "
        "are the system and user turns of the model's chat template, if it has one.",
    ),
]
Static = Annotated[bool, typer.Option("--static", help="One weight change for the whole query.")]


FILE_NAME = re.compile(r"[\w./~-]+\.(txt|md|markdown|rst|json|jsonl|yaml|yml|toml|html|csv|prompt)", re.IGNORECASE)
"""A single word that looks like a file name."""


def text(argument: str, value: str) -> str:
    """The value itself, or the content of FILE if the value is `@FILE`; a context must not be empty."""
    if value.startswith("@"):
        result, named = read_text(Path(value[1:]), f"The file of {argument}"), f"The file of {argument} {value[1:]!r}"
        result = result.removesuffix("\n").removesuffix("\r")  # editors end files with one, prompts do not
    else:
        result, named = value, argument
        with suppress(OSError):  # a text may be too long for the name of a file
            there = Path(value).is_file()
            if there or (argument == "--context" and FILE_NAME.fullmatch(value)):
                meant = f"a file: did you mean @{value}?" if there else "a file name, but there is no such file here."
                raise InputError(
                    f"{argument} is {value!r}, which is {meant} (To use the name itself as the text, write it into a "
                    "file, and give @FILE.)"
                )
    if argument == "--context" and not result.strip():
        raise InputError(f"{named} is empty: give the text of the prompt, or @FILE.")
    return result


STRONGEST = 10.0
"""The largest strength of an adapter: with larger factors a model generates no text."""


def wrong_strength(strength: float) -> str:
    """The problem of a strength, as a sentence; empty if there is none."""
    if abs(strength) <= STRONGEST:
        return ""
    return (
        f"--strength is {strength:g}, but must be between -{STRONGEST:g} and {STRONGEST:g}: "
        "0 is no effect, 1 that of the prompt."
    )


def require_strength(strength: float) -> None:
    """Refuses a strength out of range."""
    if wrong := wrong_strength(strength):
        raise InputError(wrong)


def open_model(name: str, dtype: str, device: str, *, quiet: bool) -> Model:
    """Loads the model; prints an automatically chosen device and a hint on standard error, unless `quiet`."""
    from inweights.models import bos_hint, describe_device, load, return_freed_memory

    return_freed_memory()
    loaded = load(name, dtype=dtype, device=device)
    if device in ("auto", "spread") and not quiet:
        typer.echo(f"Device: {describe_device(loaded.model)}, chosen by --device {device}.", err=True)
    if not quiet and (hint := bos_hint(loaded)):
        typer.echo(hint, err=True)
    return loaded


def require_patch_memory(prompt: Prompt) -> Estimate:
    """The estimated memory of patching and proving. Raises an error that names remedies if there is not enough."""
    from inweights.models import memory_fixes, patch_memory

    result = patch_memory(prompt.model, prompt.ids.shape[1], len(prompt.left), prompt.asked)
    model, helping = prompt.model, "a shorter --context or --query"
    return result.require(memory_fixes(model.device, helping, dtype=model.dtype))


def memory_json(estimate: Estimate) -> dict[str, int]:
    """Peak memory in bytes: as estimated before the work, and as measured after it."""
    from inweights.models import peak_memory

    return {"memory_estimate": estimate.peak, "memory_peak": peak_memory(estimate.device)}


class Texts(NamedTuple):
    """The parts of a prompt as texts."""

    context: str
    query: str
    keep: str | None


def read_texts(context: str, query: str, keep: str = "") -> Texts:
    """Reads the texts of the options, before a model is loaded, so that a wrong file name is reported at once."""
    return Texts(text("--context", context), text("--query", query), text("--keep", keep) if keep else None)


def state_form(model: Model, chat: bool, *, turns_by_default: bool = False, quiet: bool) -> None:
    """Prints on standard error, unless `quiet`, whether texts are turns or plain text, if the model takes both."""
    if quiet or getattr(model.tokenizer, "chat_template", None) is None:
        return
    form = "the system and user turns of a chat" if chat else "plain text"
    other = ""
    if chat and turns_by_default:
        other = "; --plain makes them plain text, as in verify, patch, trace and generate"
    elif not chat and not turns_by_default:
        other = "; --chat makes them turns, as in fold and evaluate"
    typer.echo(f"Context and query are read as {form}{other}.", err=True)


def open_prompt(
    model: Model, texts: Texts, chat: bool = False, shifted: bool = False, *, quiet: bool = False
) -> Prompt:
    """The prompt that the options describe; states on standard error how it is read, unless `quiet`."""
    from inweights.models import Prompt

    state_form(model, chat, quiet=quiet)

    positions: Literal["shifted", "absolute"] = "shifted" if shifted else "absolute"
    return Prompt(model, texts.context, texts.query, keep=texts.keep, chat=chat, positions=positions)
