"""`inweights combine`: adds two folds into one adapter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights._errors import InputError
from inweights.cli._model import Device, Dtype, ModelName, open_model, text
from inweights.cli._output import Json, emit, require_new, say
from inweights.cli._progress import progress

if TYPE_CHECKING:
    from inweights.folding import Fold
    from inweights.models import Model


def combine(
    first: Annotated[Path, typer.Argument(help="An adapter folder.", metavar="A")],
    second: Annotated[Path, typer.Argument(help="Another.", metavar="B")],
    out: Annotated[Path, typer.Option(help="The adapter folder to write.", file_okay=False)],
    model: ModelName = "smollm2",
    rank: Annotated[int | None, typer.Option(help="Rank of the sum; by default the sum of both ranks.", min=1)] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(help="A's prompt, then B's (@FILE too); not needed if the adapters embed them.", metavar="TEXT"),
    ] = None,
    questions: Annotated[int, typer.Option(help="How many questions to measure on.", min=1)] = 16,
    dtype: Dtype = "float32",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Add two folds, and measure how much of each prompt the sum recovers, where the prompts are known."""
    from inweights.folding import load_fold
    from inweights.models import device_names

    if context and len(context) != 2:
        times = "once" if len(context) == 1 else f"{len(context)} times"
        raise InputError(f"--context was given {times}: give it twice, A's prompt and then B's, or never.")
    require_new("--out", out)
    outputs = [text("--context", c) for c in context or ()]
    loaded = open_model(model, dtype, device, quiet=as_json)
    parts = [load_fold(path, loaded) for path in (first, second)]
    both, lost = parts[0].combined(parts[1], rank or parts[0].rank + parts[1].rank)
    prompts: list[str | None] = [*outputs] or [p.card.prompt for p in parts]
    each: list[dict[str, float] | None] = []
    with progress() as bars:
        bar = bars.add_task("measuring", total=2, note="")
        for part, prompt in zip(parts, prompts, strict=True):
            each.append(None if prompt is None else _recovered(loaded, part, both, prompt, questions))
            bars.update(bar, advance=1)
    path = both.save_pretrained(out, loaded)
    if as_json:
        emit(
            {
                "adapter": str(path),
                "rank": both.rank,
                "truncation_error": lost,
                "recovered_each": [e and e["combined"] for e in each],
                "recovered_alone": [e and e["alone"] for e in each],
                "device": device_names(loaded.model),
            }
        )
        return
    cut = f", cut to it with a relative error of {lost:.1e}" if lost else ""
    say(f"{path}: rank {both.rank}{cut}.")
    for name, e in zip((first, second), each, strict=True):
        if e is None:
            say(f"{name}: not measured, as its prompt is not known here (--context).")
        else:
            say(f"{name}: recovers {e['alone']:.3f} of its prompt alone, {e['combined']:.3f} together.")


def _recovered(loaded: Model, part: Fold, both: Fold, prompt: str, count: int) -> dict[str, float]:
    """How much of a prompt its fold recovers alone, and the sum of both folds."""
    from inweights.folding import Frame, answered, measure, questions

    frame = Frame.of(loaded, prompt, part.card.chat if part.card.prompt_sha256 else None)
    asked = questions()[:: max(1, len(questions()) // count)][:count]
    result = measure("questions", answered(frame, asked, temperature=0.0), part, others={"combined": both})
    return {"alone": result.recovered.value, "combined": result.controls["combined"].value}
