"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inweights._errors import InputError
from inweights._files import folder_for
from inweights.lab.models import Learner
from inweights.lab.training import _checkpoint as checkpoint
from inweights.lab.training._metrics import Metrics
from inweights.lab.training._processes import Processes
from inweights.lab.training._recipe import Recipe
from inweights.lab.training._run import Run
from inweights.lab.training._schedule import rate

SAVE_SECONDS = 30.0


@dataclass(frozen=True)
class Progress:
    """Where a training stands: `loss` is the mean since the last report, in units of the zero predictor's."""

    step: int
    steps: int
    loss: float
    tasks_per_second: float


@dataclass(frozen=True)
class Trained:
    """What a training gave: the model, its last loss, its seconds (also those before it was resumed), how fast it went
    this time (not a number if there was nothing left to do), where its files are, and whether this is the process that
    speaks, if there are several.
    """

    model: Learner
    loss: float
    seconds: float
    tasks_per_second: float
    path: Path
    first: bool = True


def train(
    recipe: Recipe,
    folder: Path,
    *,
    device: str = "cpu",
    every: int | None = None,
    compiled: bool | None = None,
    save_seconds: float = SAVE_SECONDS,
    after: Callable[[Progress], None] = lambda _: None,
) -> Trained:
    """Trains by a recipe, or goes on with what stopped in this folder; `after` is called every `every` steps.

    Killed at any moment it can be called again, and on a CPU gives the same weights bit for bit: batches depend on
    their step alone, and a checkpoint holds everything else.
    """
    processes = Processes(device)
    run = Run(recipe, processes, compiled=compiled)
    if processes.first:
        folder_for("--out", folder)
    processes.wait()
    before = checkpoint.resume(run, folder)
    every = every or max(1, recipe.steps // 200)
    begun = int(run.step)
    metrics = Metrics(folder / checkpoint.METRICS, begun) if processes.first else None
    start = saved = told = time.perf_counter()
    loss, speed = before.get("loss", math.nan), math.nan
    since = 0
    for step in range(begun + 1, recipe.steps + 1):
        run.advance()
        since += 1
        if step % every and step != recipe.steps:
            continue
        loss = run.mean_loss(since)
        if not math.isfinite(loss):
            raise _diverged(f"The loss became {loss}", step, recipe, folder)
        now = time.perf_counter()
        speed, told = recipe.batch * since / (now - told), now
        since = 0
        if metrics:
            metrics.add(step=step, loss=loss, rate=rate(recipe, run.step - 1).item(), tasks_per_second=speed)
            if now - saved > save_seconds and step < recipe.steps:
                _check(run, step, folder)
                spent = before.get("seconds", 0.0) + now - start
                checkpoint.write(folder / checkpoint.CHECKPOINT, run.state(), recipe, loss=loss, seconds=spent)
                saved = now
        after(Progress(step, recipe.steps, loss, speed))
    made = recipe.steps - begun
    here = time.perf_counter() - start if made else 0.0
    seconds = before.get("seconds", 0.0) + here
    model = run.averaged or run.model
    path = folder / checkpoint.MODEL
    if metrics:
        metrics.close()
    _check(run, recipe.steps, folder)
    if processes.first:
        checkpoint.write(path, model.state_dict(), recipe, loss=loss, seconds=seconds, device=str(run.device))
        checkpoint.write(folder / checkpoint.CHECKPOINT, run.state(), recipe, loss=loss, seconds=seconds)
    processes.wait()
    return Trained(model.eval(), loss, seconds, recipe.batch * made / here if made else math.nan, path, processes.first)


def _check(run: Run, step: int, folder: Path) -> None:
    """Stops before weights are saved that are no numbers: the loss of a step says nothing of what it did to them."""
    if not all(bool(t.isfinite().all()) for t in run.model.parameters()):
        raise _diverged("The weights became infinite", step, run.recipe, folder)


def _diverged(what: str, step: int, recipe: Recipe, folder: Path) -> InputError:
    return InputError(
        f"{what} before step {step}: train with a `rate` below {recipe.rate:g}. What was saved before is in "
        f"{str(folder)!r}."
    )
