"""`inweights demo`: the main job from end to end, with a page of what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights.cli._model import Device, ModelName, open_model
from inweights.cli._output import Json, Seed, emit, progress, say, table

if TYPE_CHECKING:
    from inweights.folding import FoldShown


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write into.", file_okay=False)] = Path("demo"),
    steps: Annotated[int, typer.Option(help="Training steps of the one-block transformer.", min=1)] = 2000,
    model: ModelName = "smollm2",
    device: Device = "auto",
    only_block: Annotated[bool, typer.Option("--only-block", help="Leave the language model out.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Turn prompts into weights, in a small transformer trained here and in SmolLM2, and write a page of it."""
    import torch

    from inweights import __version__
    from inweights._files import folder_for, write_atomic
    from inweights.lab.section4 import OneBlock, section4
    from inweights.report import (
        fold_sections,
        fold_summary,
        page,
        section4_summary,
        showcase_summary,
        write_section4,
        write_showcase,
    )

    folder_for("--out", out)
    header = ("", "measured", "to compare")
    if not as_json:
        say(f"Training a one-block transformer to do linear regression in context, {steps} steps …")
    with progress() as bars:
        bar = bars.add_task("training", total=steps, note="")
        found = section4(
            OneBlock(steps=steps, seed=seed),
            lambda step, loss: bars.update(bar, completed=step, note=f"test loss {loss:.3f}"),
        )
    sections, holds = write_section4(found, out), found.holds
    result: dict[str, object] = dict(found.numbers())
    if not as_json:
        table(header, section4_summary(found))
    if not only_block:
        from inweights.models import showcase

        if not as_json:
            say(f"A prompt of {model} as weights (the first run fetches and converts the model) …")
        with progress() as bars:
            bar = bars.add_task("language model", total=None, note="")
            shown = showcase(model, device=device, after=lambda stage: bars.update(bar, note=stage))
        sections, holds = sections + write_showcase(shown, out), holds and shown.holds
        result["proofs"] = {name: proof.as_json() for name, proof in shown.proofs.items()}
        result |= {**shown.words, "tokens_match": shown.matching}
        if not as_json:
            table(header, showcase_summary(shown))
            for name, said in shown.words.items():
                say(f"{name:>9}: {shown.query}{said}")
        folded = _fold(model, device, as_json)
        if folded is not None:
            sections += fold_sections(folded)
            result |= {"folded": folded.answers, "recovered": folded.recovered}
            if not as_json:
                table(header, fold_summary(folded))
                for question, answers in folded.answers.items():
                    say(f"\n{question}")
                    for name, said in answers.items():
                        say(f"{name:>9}: {said!r}")
    path = write_atomic(
        out / "index.html",
        page(
            "Context becomes weights",
            "What a prompt does inside a transformer, a low-rank change of its weights does as well: exactly. "
            "This page was made by inweights demo.",
            sections,
            f"inweights {__version__}, torch {torch.__version__}.",
        ),
    )
    if as_json:
        emit({"report": str(path), "holds": holds, **result})
    else:
        say(f"Report: {path}")
    if not holds:
        typer.echo("Prompt and weights disagree, or a control agreed too: the theorem did not hold here.", err=True)
        raise typer.Exit(1)


def _fold(name: str, device: str, as_json: bool) -> FoldShown | None:
    """One prompt as an adapter for all questions, with few queries: a quick look. Nothing if the model has no turns."""
    from inweights.folding import fold_showcase

    model = open_model(name, "float32", device, quiet=as_json)
    if not getattr(model.tokenizer, "chat_template", None):
        if not as_json:
            say(f"{name} has no chat template, so no system prompt is folded here: see `inweights fold --plain`.")
        return None
    if not as_json:
        say("The same idea for all questions at once: a system prompt folded into one LoRA adapter …")
    with progress() as bars:
        bar = bars.add_task("folding", total=None, note="")
        return fold_showcase(
            model,
            after=lambda stage, done, total: bars.update(bar, description=stage, completed=done, total=total or None),
        )
