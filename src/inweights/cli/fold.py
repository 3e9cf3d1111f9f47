"""`inweights fold`: fits one adapter for all queries to a prompt, with a fidelity report."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights._errors import InputError, Problems
from inweights.cli._fidelity import fidelity_json, show_fidelity
from inweights.cli._model import Device, ModelName, Plain, Strength, open_model, state_form, text, wrong_strength
from inweights.cli._output import Json, Seed, emit, require_new, reserved, say
from inweights.cli._progress import progress, stages

if TYPE_CHECKING:
    from inweights.folding import Made, Question
    from inweights.models import Model

FEWEST = 8
"""The least number of calibration queries of a fold, generated or from a file."""
CALIBRATION = (
    "The number of queries that the model generates, at least 8; by default 128, or 1,024 on a GPU. Or a FILE of your "
    'own, at least 8: one query a line, JSON lines such as {"query": "When do you open?"}, or a JSON array of texts or '
    "such objects. Every fifth query of a file, at most 24, is held out to measure on."
)

METHOD = (
    "match (the best), closed (no gradient), polish (closed, then the steps of match), distil (distillation, the "
    "baseline), vector (one vector for each block, the fastest) or mean (the mean of exact updates)."
)
RANK = "LoRA rank: the rank of the change of each weight matrix; by default 16 for match, 64 for closed."
ENERGY = "Cut the change of each weight matrix to the lowest rank that keeps this share of its squared norm."


def fold(
    out: Annotated[Path, typer.Option(help="The adapter folder to write.", file_okay=False)],
    context: Annotated[str | None, typer.Option(help="The prompt to fold: text, or @FILE.", metavar="TEXT")] = None,
    data: Annotated[
        str, typer.Option(help="Instead of a prompt: the few-shot prompt of a data set.", metavar="NAME")
    ] = "",
    model: ModelName = "smollm2",
    calibration: Annotated[str, typer.Option(help=CALIBRATION, metavar="N|FILE")] = "",
    questions: Annotated[
        Path | None,
        typer.Option(help="Questions to judge by, never studied: JSON lines with query and answer.", metavar="FILE"),
    ] = None,
    method: Annotated[str, typer.Option(help=METHOD)] = "match",
    rank: Annotated[int | None, typer.Option(help=RANK, min=1)] = None,
    energy: Annotated[float | None, typer.Option(help=ENERGY)] = None,
    strength: Strength = 1.0,
    plain: Plain = False,
    embed_prompt: Annotated[
        bool, typer.Option("--embed-prompt", help="Keep the prompt's text in the adapter, not only its hash.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="float32, the only one that folds are made in.")] = "float32",
    device: Device = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fold a prompt into a LoRA adapter that replaces it, and report how much of its effect is kept."""
    _require(context, data, calibration, dtype, energy, strength, method)
    require_new("--out", out)
    prompt = "" if context is None else text("--context", context)
    queries = _calibration(calibration)
    own = _questions(questions, prompt)
    tests: list[tuple[str, str]] = []
    if data:
        from inweights.data import few_shot

        task = few_shot(data, seed=seed)
        prompt, queries, tests, plain = task.context, task.calibration, task.test, True
    from inweights.folding import make

    with reserved("--out", out) as folder, progress() as bars:
        if any(folder.glob("*.json")):
            typer.echo("Resuming the fold that was interrupted: finished stages are read.", err=True)
        loaded = open_model(model, dtype, device, quiet=as_json)
        state_form(loaded, not plain, turns_by_default=True, quiet=as_json)
        made = make(
            loaded, prompt, calibration=queries, method=method, rank=rank, energy=energy, strength=strength, seed=seed,
            chat=False if plain else None, embed_prompt=embed_prompt, tests=tests, questions=own, folder=folder,
            after=stages(bars, "reading the prompt"),
        )  # fmt: skip
        written = made.fold.save_pretrained(out)
        shutil.rmtree(folder, ignore_errors=True)
    _report(made, written, loaded, method, strength, as_json)
    if made.fidelity is not None and made.fidelity.verdict == "FAILED":
        raise typer.Exit(1)


def _questions(path: Path | None, prompt: str) -> list[Question]:
    """The user's own questions, each with the passage of the prompt that contains the answer."""
    if path is None:
        return []
    from inweights.folding import pieces, read_queries, with_passages

    rows = read_queries(path, "The file of --questions")
    missing = [query for query, answer in rows if answer is None]
    if missing:
        raise InputError(
            f"--questions needs an answer to every query, but {missing[0]!r} has none: write JSON lines such as "
            '{"query": "When does the shop open?", "answer": "9:30"}.'
        )
    return with_passages([(query, answer or "") for query, answer in rows], pieces(prompt))


def _require(
    context: str | None, data: str, calibration: str, dtype: str, energy: float | None, strength: float, method: str
) -> None:
    """Raises one error that lists all invalid options."""
    from inweights._errors import unknown
    from inweights.folding import METHODS

    problems = Problems()
    problems.unless((context is not None) != bool(data), "Give either --context or --data, and not both.")
    problems.unless(not (data and calibration), "--data brings its own queries: leave --calibration out.")
    problems.unless(dtype == "float32", f"--dtype is {dtype!r}, but folds are made in float32.")
    problems.unless(energy is None or 0 < energy <= 1, f"--energy is {energy}, but must be above 0 and at most 1.")
    wrong = wrong_strength(strength)
    problems.unless(not wrong, wrong)
    problems.unless(find_spec("peft") is not None, "Adapters need the peft package: pip install 'inweights[peft]'.")
    problems.unless(method in METHODS, str(unknown("method", method, METHODS)))
    problems.stop()


def _report(made: Made, written: Path, loaded: Model, method: str, strength: float, as_json: bool) -> None:
    """Prints the fold and its fidelity, as JSON or as tables."""
    from inweights.folding import FOLD_VERDICTS
    from inweights.models import device_names

    assert made.fidelity is not None
    if as_json:
        emit({
            "verdict": made.fidelity.verdict,
            "warnings": made.fidelity.warnings,
            "adapter": str(written),
            "base_path": loaded.path,
            "method": method,
            "rank": made.fold.rank,
            "strength": strength,
            "device": device_names(loaded.model),
            "coverage": made.study.coverage,
            "facts": len(made.study.facts),
            "facts_asked": len(made.study.asked),
            "studied": len(made.study.questions),
            "calibration_queries": made.fold.card.calibration["queries"],
            "calibration_source": made.fold.card.calibration["source"],
            "seconds_solve": made.seconds_solve,
            "seconds_total": made.seconds_total,
            "resumed": made.resumed,
            **fidelity_json(made.fidelity),
        })  # fmt: skip
        return
    if made.study.questions:
        known = made.study
        say(
            f"Studied {len(known.questions)} questions about {len(known.asked)} of {len(known.facts)} facts, in "
            f"{known.coverage:.0%} of the pieces that state something."
        )
    show_fidelity(made.fidelity)
    for warning in made.fidelity.warnings:
        say(warning)
    say(f"{made.fidelity.verdict}: {FOLD_VERDICTS[made.fidelity.verdict]} {made.fidelity.reason}.")
    say(
        f"{written}: rank {made.fold.rank}, {made.fold.nbytes / 2**20:.1f} MiB, strength {strength:g}; "
        f"solved in {made.seconds_solve:.1f} s, {made.seconds_total:.0f} s in total"
        f"{' since it was resumed' if made.resumed else ''}."
    )
    say("A folded adapter leaks its prompt: whoever has the adapter can extract information about it.")


def _calibration(value: str) -> int | Path | list[str] | None:
    if not value:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,9}", value):
        if int(value) < FEWEST:
            raise InputError(f"--calibration is {value}, but at least {FEWEST} queries are needed.")
        return int(value)
    if not Path(value).is_file():
        raise InputError(f"--calibration is {value!r}, which is neither a number nor a file.")
    from inweights.folding import read_queries

    queries = {q for q, _ in read_queries(Path(value), "The file of --calibration")}
    if len(queries) < FEWEST:  # like errors in the file, reported before any work
        raise InputError(
            f"The file of --calibration {value!r} has {len(queries)} different queries, but at least {FEWEST} are "
            "needed: add some, or give a number of queries for the model to generate."
        )
    return Path(value)
