"""`inweights lab show`: describes a recipe, task, shift, model or predictor of the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inweights.cli._output import Json, emit, say, table
from inweights.cli.lab_load import Load

if TYPE_CHECKING:
    from inweights.lab import Formula, Kind


def show_command(
    name: Annotated[
        str,
        typer.Argument(
            help="A recipe, task, shift, model or predictor; NAME@SEED; a TOML file; a folder that `lab train` wrote."
        ),
    ],
    load: Load = None,
    as_json: Json = False,
) -> None:
    """Describe what a name refers to: what it does, its settings and defaults, the whole recipe, its trained models."""
    from inweights.lab import Kind, described
    from inweights.lab import load_own as load_own

    load_own(load)
    result = described(name)
    if as_json:
        emit({"found": [_kind_values(each) if isinstance(each, Kind) else _recipe_values(each) for each in result]})
        return
    for i, each in enumerate(result):
        if i:
            say("")
        if isinstance(each, Kind):
            _show_kind(each)
        else:
            _show_recipe(each)


def _kind_values(kind: Kind) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(kind)


def _recipe_values(formula: Formula) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "what": formula.what,
        "name": formula.name,
        "about": formula.recipe.note,
        "settings": formula.recipe.model_dump(mode="json"),
        "toml": formula.text,
        "parameters": formula.parameters,
        "trained": [asdict(each) for each in formula.trained],
    }


def _show_kind(kind: Kind) -> None:
    from rich.markup import escape

    say(f"{kind.what} {kind.name}\n\n{kind.about}")
    if kind.settings:
        rows = [(s.name, "needed" if s.default is None else escape(s.default), escape(s.type)) for s in kind.settings]
        table(("setting", "default", "type"), rows)
    else:
        say("\nIt has no settings.\n")
    if kind.facts:
        f = kind.facts
        numbers = "labels of one number" if f["outputs"] == 1 else f"{f['outputs']} outputs"
        say(f"By default: {f['loss']} loss, {numbers}, losses are divided by {f['power']:.4g} (`power`).")
    say(f"Chosen by: {kind.use}" if kind.use else "Its settings are Python objects: create it in Python (docs/lab.md).")


def _show_recipe(formula: Formula) -> None:
    recipe = formula.recipe
    say(f"{formula.what} {formula.name}: {recipe.task.kind}, {recipe.model.kind}, {formula.parameters:,} parameters\n")
    say(formula.text)
    if formula.defaults:
        text = (f"{key} {'none' if value in (None, '') else value}" for key, value in formula.defaults.items())
        say(f"Defaults: {', '.join(text)}.\n")
    if not formula.trained:
        say(f"Not in the zoo: `inweights lab train {formula.name}` trains it.")
        return
    last = max(len(t.about.get("quality", ())) for t in formula.trained) - 1
    shown = sorted({0, last // 2, last}) if last >= 0 else []
    rows = []
    for t in formula.trained:
        quality = t.about.get("quality")
        errors = [f"{quality[i]:.3g}" if quality else "" for i in shown]
        loss = t.about.get("loss") or (t.about.get("curve") or [[0, None]])[-1][1]
        seconds = f"{t.about['seconds']:.0f} s, {t.about.get('device', '')}" if "seconds" in t.about else ""
        remark = "" if t.today else "trained with an earlier version of the recipe"
        rows.append((str(t.seed), *errors, "" if loss is None else f"{loss:.3g}", seconds, t.command, remark))
    header = ("seed", *(f"error after {i}" for i in shown), "last loss", "trained in", "reproduced by", "")
    table(header, rows, title="trained")
    if formula.what != "recipe":
        say("Save the recipe as FILE.toml: `inweights lab train FILE.toml` trains the model again.")
    elif shown:
        say("error: mean over 6,400 prompts, 1 is that of always answering 0; `lab eval` compares it with others")
