"""`inweights demo`: a demonstration from end to end, with an HTML page of its results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights.cli._model import Device, ModelName, open_model
from inweights.cli._output import Json, Seed, emit, say, table
from inweights.cli._progress import progress, stages

if TYPE_CHECKING:
    from inweights.folding import FoldShown
    from inweights.report import Section


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write into.", file_okay=False)] = Path("demo"),
    steps: Annotated[int, typer.Option(help="Training steps of the one-block transformer.", min=1)] = 2000,
    model: ModelName = "smollm2",
    device: Device = "auto",
    only_block: Annotated[bool, typer.Option("--only-block", help="Skip the parts with a language model.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Turn prompts into weights, in a small transformer trained here and in SmolLM2, and write an HTML page."""
    from inweights._files import require_writable

    require_writable("--out", out)
    parts = [_block(out, steps, seed, as_json)]
    if not only_block:
        parts.append(_language_model(out, model, device, as_json))
        parts += _folds(model, device, as_json)
    path = _page(out, [section for part in parts for section in part.sections])
    holds = all(part.holds for part in parts)
    if as_json:
        emit({"report": str(path), "holds": holds} | {k: v for part in parts for k, v in part.numbers.items()})
    else:
        say(f"Report: {path}")
    if not holds:
        typer.echo("Prompt and weights disagree, or a control agrees too: the theorem does not hold here.", err=True)
        raise typer.Exit(1)


@dataclass(frozen=True)
class Part:
    """One part of the demonstration: its sections of the page, its numbers, and whether its claims hold."""

    sections: list[Section]
    numbers: dict[str, object]
    holds: bool = True


HEADER = ("", "measured", "to compare")


def _block(out: Path, steps: int, seed: int, as_json: bool) -> Part:
    """Trains a one-block transformer and compares prompt and weights."""
    from inweights.lab.section4 import OneBlock, section4
    from inweights.report import section4_summary, write_section4

    if not as_json:
        say(f"Training a one-block transformer to do linear regression in context, {steps} steps …")
    with progress() as bars:
        bar = bars.add_task("training", total=steps, note="")
        result = section4(
            OneBlock(steps=steps, seed=seed),
            lambda step, loss: bars.update(bar, completed=step, note=f"test loss {loss:.3f}"),
        )
    sections = write_section4(result, out)
    if not as_json:
        table(HEADER, section4_summary(result))
    return Part(sections, dict(result.numbers()), result.holds)


def _language_model(out: Path, model: str, device: str, as_json: bool) -> Part:
    """Turns a prompt of a language model into weights."""
    from inweights.models import showcase
    from inweights.report import showcase_summary, write_showcase

    if not as_json:
        say(f"A prompt of {model} as weights (the first run fetches and converts the model) …")
    with progress() as bars:
        bar = bars.add_task("language model", total=None, note="")
        shown = showcase(model, device=device, after=lambda stage: bars.update(bar, note=stage))
    sections = write_showcase(shown, out)
    if not as_json:
        table(HEADER, showcase_summary(shown))
        for name, words in shown.words.items():
            say(f"{name:>9}: {shown.query}{words}")
    proofs = {name: proof.as_json() for name, proof in shown.proofs.items()}
    return Part(sections, {"proofs": proofs, **shown.words, "tokens_match": shown.matching}, shown.holds)


def _folds(name: str, device: str, as_json: bool) -> list[Part]:
    """Folds two prompts, with few queries, as quick examples: one of style and one of facts.

    Empty for a model without a chat template.
    """
    from inweights.folding import facts_showcase, fold_showcase
    from inweights.report import facts_sections, facts_summary, fold_sections, fold_summary

    model = open_model(name, "float32", device, quiet=as_json)
    if not getattr(model.tokenizer, "chat_template", None):
        if not as_json:
            say(f"{name} has no chat template, so no system prompt is folded here: see `inweights fold --plain`.")
        return []
    if not as_json:
        say("The same for all questions at once: a system prompt folded into one LoRA adapter …")
    with progress() as bars:
        style = fold_showcase(model, after=stages(bars, "folding"))
    if not as_json:
        _show(style, fold_summary(style))
        say("\nA prompt of facts, folded the same way …")
    with progress() as bars:
        facts = facts_showcase(model, after=stages(bars, "folding"))
    if not as_json:
        _show(facts, facts_summary(facts))
    assert facts.made.fidelity is not None
    assert facts.made.fidelity.recall is not None
    known = {"answers": facts.answers, "accuracy": facts.made.fidelity.recall.accuracy}
    return [
        Part(fold_sections(style), {"folded": style.answers, "recovered": style.recovered}),
        Part(facts_sections(facts), {"facts": known}),
    ]


def _show(shown: FoldShown, rows: list[tuple[str, str, str]]) -> None:
    """Prints the measurements, and the answers of the prompted, the bare and the folded model."""
    table(HEADER, rows)
    for question, answers in shown.answers.items():
        say(f"\n{question}")
        for name, words in answers.items():
            say(f"{name:>9}: {words!r}")


def _page(out: Path, sections: list[Section]) -> Path:
    import torch

    from inweights import __version__
    from inweights._files import write_atomic
    from inweights.report import page

    text = page(
        "Context becomes weights",
        "The effect of a prompt on a transformer equals that of a low-rank change of its weights, exactly. "
        "This page was generated by inweights demo.",
        sections,
        f"inweights {__version__}, torch {torch.__version__}.",
    )
    return write_atomic(out / "index.html", text)
