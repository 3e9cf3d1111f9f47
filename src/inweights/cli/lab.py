"""`inweights lab`: train, measure and compare in-context learners."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from inweights._errors import InputError, Problems
from inweights.cli._device import usable
from inweights.cli._output import Json, Seed, emit, progress, say, table
from inweights.cli.lab_show import show_command
from inweights.cli.lab_sweep import Changes, sweep_command

if TYPE_CHECKING:
    from torch import Tensor

    from inweights.lab._registry import Registry
    from inweights.lab.training import Recipe

T = TypeVar("T")

lab = typer.Typer(help="Synthetic in-context learning: train, measure, compare, draw.", no_args_is_help=True)
lab.command("show")(show_command)
lab.command("sweep")(sweep_command)

Where = Annotated[str, typer.Option(help="cpu or cuda.")]
Trained = Annotated[str, typer.Argument(help="A model of the zoo, or a folder that `lab train` wrote.", metavar="NAME")]
Prompts = Annotated[int, typer.Option(help="How many prompts to measure on.", min=2)]
Points = Annotated[int | None, typer.Option(help="Of each prompt; as trained by default.", min=1)]
Shift = Annotated[str, typer.Option(help="Prompts from another law, e.g. orthants; `lab list` names them.")]
Against = Annotated[
    list[str] | None,
    typer.Option(help="A predictor to compare with, e.g. ridge or ridge:penalty=0.5; repeatable.", metavar="NAME"),
]


@lab.command("list")
def list_command(as_json: Json = False) -> None:
    """List recipes, trained models, tasks, models and predictors."""
    from inweights.lab import zoo
    from inweights.lab.models import MODELS
    from inweights.lab.predictors import PREDICTORS
    from inweights.lab.tasks import SHIFTS, TASKS
    from inweights.lab.training import names, read

    recipes: list[dict[str, Any]] = []
    for name in names():
        recipe = read(name)
        seeds = zoo.seeds(name)
        quality = zoo.about(name).get("quality") if 0 in seeds else None
        recipes.append(
            {
                "name": name,
                "task": recipe.task.kind,
                "model": recipe.model.kind,
                "seeds": seeds,
                "quality": quality,
                "note": recipe.note,
            }
        )
    kinds: dict[str, Iterable[str]] = {"tasks": TASKS, "shifts": SHIFTS, "models": MODELS, "predictors": PREDICTORS}
    if as_json:
        emit({"recipes": recipes, **{what: list(registry) for what, registry in kinds.items()}})
        return
    rows = []
    for r in recipes:
        error = f"{r['quality'][-1]:.2g}" if r["quality"] else ""
        rows.append((r["name"], r["task"], r["model"], str(len(r["seeds"]) or ""), error, r["note"]))
    table(("recipe", "task", "model", "trained", "error", ""), rows)
    say("trained: with how many seeds, in the zoo; error: after all examples, 1 is that of always answering 0")
    for what, registry in kinds.items():
        say(f"{what}: {', '.join(registry)}")
    say("`inweights lab show NAME` tells more about any of them")


@lab.command("train")
def train_command(
    name: Annotated[str, typer.Argument(help="A recipe by name, or a TOML file.", metavar="RECIPE")],
    out: Annotated[Path | None, typer.Option(help="The folder to write; RECIPE by default.", file_okay=False)] = None,
    change: Changes = None,
    device: Where = "cpu",
    as_json: Json = False,
) -> None:
    """Train a model by a recipe; goes on where it was stopped."""
    from inweights.lab.training import Progress, check_model, read, train

    recipe = read(name, change)
    usable(device)
    folder = out or Path(Path(name).stem)
    check_model(folder)
    with progress() as bars:
        bar = bars.add_task("training", total=recipe.steps, note="")

        def after(now: Progress) -> None:
            bars.update(
                bar, completed=now.step, note=f"loss {now.loss:.4g}, {now.tasks_per_second:,.0f} tasks a second"
            )

        done = train(recipe, folder, device=device, after=after)
    result = {
        "loss": done.loss,
        "tasks_per_second": done.tasks_per_second,
        "seconds": done.seconds,
        "steps": recipe.steps,
        "path": str(done.path),
        "parameters": sum(p.numel() for p in done.model.parameters()),
    }
    if not done.first:
        return
    if as_json:
        emit(result)
        return
    if math.isnan(done.tasks_per_second):
        say(f"Trained already: {done.path}")
    else:
        say(
            f"Loss {done.loss:.4g} after {recipe.steps} steps, {done.seconds:.0f} s, {done.tasks_per_second:,.0f} "
            f"tasks a second: {done.path}"
        )


@lab.command("eval")
def eval_command(
    name: Trained,
    prompts: Prompts = 1280,
    points: Points = None,
    shift: Shift = "",
    against: Against = None,
    device: Where = "cpu",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """The error of a trained model after 0, 1, … n examples, beside classical predictors on the same prompts."""
    recipe, found = _measured(name, prompts, points, shift, against, device, seed)
    from inweights.lab import UNITS, bootstrap

    bands = {who: bootstrap(errors) for who, errors in found.items()}
    if as_json:
        emit(
            {
                "curves": {who: b.mean.tolist() for who, b in bands.items()},
                "low": {who: b.low.tolist() for who, b in bands.items()},
                "high": {who: b.high.tolist() for who, b in bands.items()},
                "task": recipe.task.model_dump(),
                "prompts": prompts,
                "shift": shift,
            }
        )
        return
    last = len(next(iter(bands.values())).mean) - 1
    shown = sorted({round(last * i / 6) for i in range(7)})
    rows = [(who, *(f"{b.mean[i]:.3g}\n±{(b.high[i] - b.low[i]) / 2:.2g}" for i in shown)) for who, b in bands.items()]
    of = ", ".join(filter(None, (name, _in_full(shift))))
    units = UNITS[recipe.make_task().loss]
    table(("after", *(str(i) for i in shown)), rows, title=f"{of}: {units}, ± half the 95% interval")


@lab.command("plot")
def plot_command(
    name: Trained,
    out: Annotated[Path, typer.Option(help="The folder for the figure and its table.", file_okay=False)],
    prompts: Prompts = 1280,
    points: Points = None,
    shift: Shift = "",
    against: Against = None,
    device: Where = "cpu",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Draw what `eval` measures, with bootstrap bands, and write the table that the figure is drawn from."""
    from inweights._files import folder_for

    folder_for("--out", out)
    recipe, found = _measured(name, prompts, points, shift, against, device, seed)
    from inweights.lab import UNITS
    from inweights.report import write_curves

    law = _in_full(shift)
    stem = "-".join(filter(None, (Path(name).stem, law.replace(":", "-").replace(",", "-"))))
    title = f"{Path(name).stem}: {recipe.task.kind}{', ' + law if law else ''}"
    figure, data = write_curves(out / stem, title, found, UNITS[recipe.make_task().loss])
    if as_json:
        emit({"figure": str(figure), "table": str(data)})
    else:
        say(f"{figure}\n{data}")


def _measured(
    name: str,
    prompts: int,
    points: int | None,
    shift: str,
    against: list[str] | None,
    device: str,
    seed: int,
) -> tuple[Recipe, dict[str, Tensor]]:
    """The errors of a trained model and of its rivals, all on the same prompts."""
    from inweights.lab import curves, rivals
    from inweights.lab.predictors import PREDICTORS, Outputs
    from inweights.lab.tasks import SHIFTS
    from inweights.lab.zoo import trained

    usable(device)
    model, recipe, _ = trained(name)
    task = recipe.make_task()
    if against and task.loss == "tokens":
        raise InputError(f"--against is {against[0]!r}, but predictors know nothing of tokens: leave it out.")
    others = {text: made(PREDICTORS, text) for text in against} if against else rivals(task)
    if against and task.outputs > 1:
        others = {name: Outputs(of=each) for name, each in others.items()}
    source = made(SHIFTS, shift).on(task) if shift else None
    predictors: dict[str, Any] = {"model": model.to(device), **others}
    length = recipe.points if points is None else points
    clean = recipe.target == "clean"
    found = curves(task, length, predictors, source=source, prompts=prompts, seed=seed, device=device, clean=clean)
    return recipe, found


def _in_full(shift: str) -> str:
    """A shift as `made` reads it, with all its settings; nothing for none."""
    from dataclasses import asdict

    from inweights.lab.tasks import SHIFTS

    settings = [f"{key}={value}" for key, value in asdict(made(SHIFTS, shift)).items()] if shift else []
    return ":".join(filter(None, (shift.partition(":")[0], ",".join(settings))))


def made(registry: Registry[T], text: str) -> T:
    """A predictor or shift from `name` or `name:key=value,key=value`."""
    from inweights.lab._text import COMMA, value

    name, _, rest = text.partition(":")
    kinds = {key: str(f.type) for key, f in registry.fields(name).items()}
    settings: dict[str, Any] = {}
    problems = Problems()
    for part in filter(None, COMMA.split(rest)):
        key, found, given = part.partition("=")
        key = key.strip()
        if problems.unless(bool(found), f"{part!r} in {text!r} is no setting: write key=value."):
            settings[key] = value(given)
            plain = kinds.get(key, "int").startswith(("int", "float", "str", "bool", "tuple[float", "tuple[int"))
            problems.unless(plain, f"`{key}` of {name} is no plain number or list: give it in Python.")
    problems.stop()
    return registry.make(name, **settings)
