"""`inweights evaluate`: measures how faithful an adapter is to a prompt on given queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inweights.cli._fidelity import fidelity_json, show_fidelity
from inweights.cli._model import (
    Context,
    Device,
    Dtype,
    ModelName,
    Plain,
    Strength,
    open_model,
    require_strength,
    state_form,
    text,
)
from inweights.cli._output import Json, Seed, emit, say, table
from inweights.cli._progress import progress

if TYPE_CHECKING:
    from inweights.folding import Savings

QUERIES = "JSON lines, or a JSON array, of objects with `query` and perhaps `answer`; or lines of text."
STRICT = (
    "For accuracy, an answer is right only if it begins with the given one; by default, if it contains it as whole "
    "words."
)
Adapter = Annotated[Path, typer.Option(help="A LoRA adapter folder, from inweights or any other.")]


def evaluate(
    adapter: Adapter,
    context: Context,
    queries: Annotated[Path | None, typer.Option(help=QUERIES)] = None,
    strict: Annotated[bool, typer.Option("--strict", help=STRICT)] = False,
    other: Annotated[Path | None, typer.Option(help="The fold of another prompt, as a negative control.")] = None,
    model: ModelName = "smollm2",
    strength: Strength = 1.0,
    plain: Plain = False,
    new_tokens: Annotated[int, typer.Option(help="Answer tokens to compare.", min=1)] = 48,
    growth: Annotated[bool, typer.Option("--growth", help="Also measure what a longer prompt would cost.")] = False,
    dtype: Dtype = "float32",
    device: Device = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare the prompted, bare and folded model on queries; without --queries, on hand-written questions."""
    from inweights.folding import Frame, load_fold, questions, read_queries, savings, seen
    from inweights.folding import fidelity_of as measured
    from inweights.models import device_names

    require_strength(strength)
    prompt = text("--context", context)
    asked = read_queries(queries, "The file of --queries") if queries else [(q, None) for q in questions()]
    loaded = open_model(model, dtype, device, quiet=as_json)
    fold = load_fold(adapter, loaded)
    card = fold.card
    fold *= strength
    # The card of our folds records whether they use chat turns; for other adapters the model decides.
    frame = Frame.of(loaded, prompt, False if plain else card.chat if card.prompt_sha256 else None)
    state_form(loaded, frame.chat, turns_by_default=True, quiet=as_json)
    overlap = sum(map(set(card.calibration.get("seen", ())).__contains__, seen(q for q, _ in asked)))
    other_prompt = bool(card.prompt_sha256) and card.prompt_sha256 != frame.digest
    if other_prompt and not as_json:
        say("The adapter was folded from another prompt than this context.")
    others = {"another prompt's fold": load_fold(other, loaded)} if other else None
    name = queries.name if queries else "hand-written questions"
    with progress() as bars:
        bar = bars.add_task("evaluating", total=None, note="")
        result = measured(
            frame, fold, {name: [q for q, _ in asked]}, answers=[(q, a) for q, a in asked if a is not None],
            strict=strict, others=others, new=new_tokens, seed=seed,
            after=lambda stage: bars.update(bar, description=stage),
        )  # fmt: skip
    lengths = [n for n in (64, 256, 1024, 4096) if n + len(frame.asked(asked[0][0])) < loaded.window]
    costs = [savings(frame, asked[0][0], n, rounds=1) for n in lengths] if growth else []
    if as_json:
        values: dict[str, Any] = {"adapter": str(adapter), "calibrated_on": overlap, "same_prompt": not other_prompt}
        values["device"] = device_names(loaded.model)
        values |= {"growth": [v.as_json() for v in costs]} if growth else {}
        emit({**values, "tokens": frame.describe(asked[0][0]), **fidelity_json(result)})
        return
    show_fidelity(result)
    if costs:
        _show_growth(costs)
    if overlap:
        say(f"The adapter was calibrated on {overlap} of these {len(asked)} queries: results on them are optimistic.")
    right = result.accuracy
    if right and right["folded"] < right["prompted"]:
        say("The folded model answers fewer of these questions right than the prompted one: do not rely on it there.")


def _show_growth(costs: list[Savings]) -> None:
    rows = [
        (str(v.tokens), f"{v.kv_bytes / 2**20:.1f} MiB", f"{v.seconds_prompted:.2f} s", f"{v.seconds_bare:.2f} s")
        for v in costs
    ]
    table(("prompt tokens", "keys and values", "to the first token, prompted", "folded"), rows)
