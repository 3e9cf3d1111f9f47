"""`inweights lab`: train, measure and compare in-context learners."""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inweights.cli._device import Where, usable
from inweights.cli._output import Json, emit, say, table
from inweights.cli._progress import progress
from inweights.cli.lab_load import Load
from inweights.cli.lab_measure import eval_command, plot_command
from inweights.cli.lab_show import show_command
from inweights.cli.lab_sweep import Changes, sweep_command

if TYPE_CHECKING:
    from inweights.lab.training import Trained

lab = typer.Typer(help="Synthetic in-context learning: train, measure, compare, draw.", no_args_is_help=True)
lab.command("show")(show_command)
lab.command("eval")(eval_command)
lab.command("plot")(plot_command)
lab.command("sweep")(sweep_command)


@lab.command("list")
def list_command(load: Load = None, as_json: Json = False) -> None:
    """List recipes, trained models, tasks, models and predictors."""
    from inweights.lab import load_own as load_own
    from inweights.lab import zoo
    from inweights.lab.models import MODELS
    from inweights.lab.predictors import PREDICTORS
    from inweights.lab.tasks import SHIFTS, TASKS
    from inweights.lab.training import read, recipe_names

    load_own(load)
    recipes: list[dict[str, Any]] = []
    for name in recipe_names():
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
    say("trained: number of seeds in the zoo; error: after all examples, 1 is that of always answering 0")
    for what, registry in kinds.items():
        say(f"{what}: {', '.join(registry)}")
    say("`inweights lab show NAME` shows details")


@lab.command("train")
def train_command(
    name: Annotated[str, typer.Argument(help="A recipe by name, or a TOML file.", metavar="RECIPE")],
    out: Annotated[Path | None, typer.Option(help="The folder to write; RECIPE by default.", file_okay=False)] = None,
    change: Changes = None,
    load: Load = None,
    seeds: Annotated[
        int | None, typer.Option(help="Train so many seeds at once, from the recipe's on, into OUT/seed-N.", min=1)
    ] = None,
    device: Where = "cpu",
    as_json: Json = False,
) -> None:
    """Train a model by a recipe; a stopped training resumes. Ctrl-C saves a checkpoint first. With --seeds, several
    models as one batched program, each as it would be alone."""
    from inweights.lab import load_own as load_own
    from inweights.lab.training import Progress, StoppedError, check_model, read, train, train_seeds

    load_own(load)
    recipe = read(name, change)
    device = usable(device)
    folder = out or Path(Path(name).stem)
    check_model(folder)
    with asked_to_stop() as stop, progress() as bars:
        bar = bars.add_task("training", total=recipe.steps, note="")

        def after(now: Progress) -> None:
            bars.update(
                bar, completed=now.step, note=f"loss {now.loss:.4g}, {now.tasks_per_second:,.0f} tasks a second"
            )

        try:
            if seeds is None:
                results = [train(recipe, folder, device=device, after=after, stop=stop)]
            else:
                chosen = range(recipe.seed, recipe.seed + seeds)
                results = train_seeds(recipe, chosen, folder, device=device, after=after, stop=stop)
        except StoppedError as error:
            bars.stop()
            sys.stderr.write(f"{error} To resume: {shlex.join(['inweights', *sys.argv[1:]])}\n")
            raise typer.Exit(130) from None
    if not results[0].first:
        return
    if as_json:
        emit(_values(results, recipe.steps, range(recipe.seed, recipe.seed + seeds) if seeds else ()))
        return
    for each in results:
        speed = f"{each.seconds:.0f} s, {each.tasks_per_second:,.0f} tasks a second"
        done = f"Loss {each.loss:.4g} after {recipe.steps} steps, {speed}"
        say(f"{'Trained already' if math.isnan(each.tasks_per_second) else done}: {each.path}")


def _values(results: Sequence[Trained], steps: int, seeds: Sequence[int]) -> dict[str, Any]:
    """The JSON of `lab train`: the first model, and with `--seeds` the loss and the path of each."""
    done = results[0]
    each = [{"seed": seed, "loss": r.loss, "path": str(r.path)} for seed, r in zip(seeds, results, strict=False)]
    return {
        "loss": done.loss,
        "tasks_per_second": done.tasks_per_second,
        "seconds": done.seconds,
        "steps": steps,
        "path": str(done.path),
        "parameters": sum(p.numel() for p in done.model.parameters()),
        **({"seeds": each} if seeds else {}),
    }


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed; a second Ctrl-C stops at once. With several processes,
    which cannot agree on a step to stop at, the first one does."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        yield lambda: False
        return
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
