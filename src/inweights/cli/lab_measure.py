"""`inweights lab eval` and `lab plot`: the error of a trained model and of others, on the same prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from inweights._errors import InputError, Problems, unknown
from inweights.cli._device import Where, usable
from inweights.cli._output import Json, Seed, emit, say, table
from inweights.cli._progress import progress
from inweights.cli.lab_load import Load

if TYPE_CHECKING:
    from torch import Tensor

    from inweights.lab import Registry
    from inweights.lab.predictors import Predictor
    from inweights.lab.tasks import Task
    from inweights.lab.training import Recipe

T = TypeVar("T")

Trained = Annotated[str, typer.Argument(help="A model of the zoo, or a folder that `lab train` wrote.", metavar="NAME")]
Prompts = Annotated[int, typer.Option(help="How many prompts to measure on.", min=2)]
Points = Annotated[int | None, typer.Option(help="Points in each prompt; as trained by default.", min=1)]
Shift = Annotated[str, typer.Option(help="Shifted prompt distribution, e.g. orthants; `lab list` shows all.")]
Against = Annotated[
    list[str] | None,
    typer.Option(
        help="What to compare with: a predictor, e.g. ridge or ridge:penalty=0.5, or another trained model, by its "
        "name in the zoo or its folder; repeatable.",
        metavar="NAME",
    ),
]


def eval_command(
    name: Trained,
    prompts: Prompts = 1280,
    points: Points = None,
    shift: Shift = "",
    against: Against = None,
    load: Load = None,
    device: Where = "cpu",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure the error of a trained model after 0, 1, … n examples, and of others on the same prompts."""
    result = _measured(name, prompts, points, shift, against, load, device, seed)
    from inweights.lab import bootstrap

    bands = {who: bootstrap(errors) for who, errors in result.errors.items()}
    medians = {who: errors.double().nanquantile(0.5, 0) for who, errors in result.errors.items()}
    if as_json:
        emit(
            {
                "curves": {who: b.mean.tolist() for who, b in bands.items()},
                "low": {who: b.low.tolist() for who, b in bands.items()},
                "high": {who: b.high.tolist() for who, b in bands.items()},
                "median": {who: m.tolist() for who, m in medians.items()},
                "task": result.recipe.task.model_dump(),
                "prompts": prompts,
                "shift": shift,
                "power": result.power,
                "error_unit": result.full,
                "unit": result.full,  # its former name
            }
        )
        return
    last = len(next(iter(medians.values()))) - 1
    shown = sorted({round(last * i / 6) for i in range(7)})
    rows = []
    for who, b in bands.items():
        cells = (f"{b.mean[i]:.3g}\n±{(b.high[i] - b.low[i]) / 2:.2g}\n{medians[who][i]:.3g}" for i in shown)
        rows.append((f"{who}\n\n  median", *cells))
    of = ", ".join(filter(None, (name, _in_full(shift))))
    title = f"{of}: {result.full}; mean over {prompts:,} prompts, ± half its 95% interval, median"
    table(("after", *(str(i) for i in shown)), rows, title=title)


def plot_command(
    name: Trained,
    out: Annotated[Path, typer.Option(help="The folder for the figure and its table.", file_okay=False)],
    prompts: Prompts = 1280,
    points: Points = None,
    shift: Shift = "",
    against: Against = None,
    load: Load = None,
    device: Where = "cpu",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Draw what `eval` measures, with bootstrap bands, and write the table that the figure is drawn from."""
    from inweights._files import require_writable

    require_writable("--out", out)
    result = _measured(name, prompts, points, shift, against, load, device, seed)
    from inweights.report import write_curves

    law = _in_full(shift)
    stem = "-".join(filter(None, (Path(name).stem, law.replace(":", "-").replace(",", "-"))))
    title = f"{Path(name).stem}: {result.recipe.task.kind}{', ' + law if law else ''}"
    figure, data = write_curves(out / stem, title, result.errors, result.unit)
    if as_json:
        emit(
            {
                "figure": str(figure),
                "table": str(data),
                "error_unit": result.full,
                "power": result.power,
                "unit": result.full,
            }
        )
    else:
        say(f"{figure}\n{data}\n{result.full}")


class Measured(NamedTuple):
    """The errors of a trained model and of others, `(prompts, points)` each.

    - `unit`: the unit of the errors, for a figure; `full`: the same in full.
    - `power`: what squared errors are divided by; None for other losses.
    """

    recipe: Recipe
    errors: dict[str, Tensor]
    unit: str
    full: str
    power: float | None


def _measured(
    name: str,
    prompts: int,
    points: int | None,
    shift: str,
    against: list[str] | None,
    load: list[Path] | None,
    device: str,
    seed: int,
) -> Measured:
    """Measures the model and the others on the same prompts."""
    from inweights.lab import UNITS, curves, rivals, shifted_power
    from inweights.lab import load_own as load_own
    from inweights.lab.tasks import SHIFTS
    from inweights.lab.zoo import trained

    device = usable(device)
    load_own(load)
    model, recipe, _ = trained(name)
    task = recipe.make_task()
    length = recipe.points if points is None else points
    others = {text: _other(text, task, length, device) for text in against} if against else rivals(task)
    predictors: dict[str, Any] = {"model": model.to(device), **others}
    unit, source = UNITS[task.loss], None
    power = task.power if task.loss == "squared" else None
    if shift:
        source = made(SHIFTS, shift).on(task)
        if task.loss == "squared":
            power = shifted_power(source, length, prompts=prompts, seed=seed)
            unit = "squared error / mean square of a shifted label"
    with progress() as bars:
        bar = bars.add_task("measuring", total=prompts * len(predictors), note="")

        def after(who: str, done: int) -> None:
            bars.update(bar, advance=done, note=who)

        clean = recipe.target == "clean"
        result = curves(
            task, length, predictors, source=source, prompts=prompts, seed=seed, device=device, clean=clean,
            power=power, after=after,
        )  # fmt: skip
    full = f"{unit} without noise, {power:.4g} (unshifted {task.power:.4g})" if shift and power else unit
    return Measured(recipe, result, unit, full, power)


def _other(text: str, task: Task, points: int, device: str) -> Predictor:
    """A predictor, or another trained model that can read the prompts of this task."""
    from inweights.lab import zoo
    from inweights.lab.predictors import PREDICTORS, Outputs
    from inweights.lab.training import recipe_names

    base = text.partition(":")[0]
    if base in PREDICTORS:
        if task.loss == "tokens":
            raise InputError(f"--against is {text!r}, but predictors cannot read tokens: leave it out.")
        predictor = made(PREDICTORS, text)
        return Outputs(of=predictor) if task.outputs > 1 else predictor
    if not (Path(text).exists() or text.partition("@")[0] in recipe_names()):
        raise unknown("predictor or trained model", text, [*PREDICTORS, *(n for n in zoo.names() if "@" not in n)])
    model, recipe, _ = zoo.trained(text)
    other = recipe.make_task()
    problems = Problems()
    for what in ("dims", "outputs", "loss"):
        mine, its = getattr(task, what), getattr(other, what)
        problems.unless(
            mine == its, f"--against is {text!r}, which was trained with {what} {its}, but these prompts have {mine}."
        )
    most = model.max_points
    problems.unless(
        most is None or points <= most,
        f"--against is {text!r}, which has positions for {most} points, but these prompts have {points}: set --points.",
    )
    problems.stop()
    return model.to(device)


def _in_full(shift: str) -> str:
    """A shift in the form that `made` parses, with all its settings; empty without a shift."""
    from dataclasses import asdict

    from inweights.lab.tasks import SHIFTS

    settings = [f"{key}={value}" for key, value in asdict(made(SHIFTS, shift)).items()] if shift else []
    return ":".join(filter(None, (shift.partition(":")[0], ",".join(settings))))


def made(registry: Registry[T], text: str) -> T:
    """A predictor or shift from `name` or `name:key=value,key=value`."""
    from inweights.lab import COMMA, PLAIN, value

    name, _, rest = text.partition(":")
    kinds = {key: str(f.type) for key, f in registry.fields(name).items()}
    settings: dict[str, Any] = {}
    problems = Problems()
    for part in filter(None, COMMA.split(rest)):
        key, result, given = part.partition("=")
        key = key.strip()
        if problems.unless(bool(result), f"{part!r} in {text!r} is not a setting: write key=value."):
            settings[key] = value(given)
            plain = kinds.get(key, "int").startswith(PLAIN)
            problems.unless(plain, f"`{key}` of {name} is not a plain number or list: give it in Python.")
    problems.stop()
    return registry.make(name, **settings)
