"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inweights._errors import InputError
from inweights._files import folder_for, locked
from inweights.lab.models import Learner
from inweights.lab.training import _checkpoint as checkpoint
from inweights.lab.training._made_with import made_with
from inweights.lab.training._metrics import Metrics
from inweights.lab.training._processes import Processes
from inweights.lab.training._recipe import Recipe, changed
from inweights.lab.training._run import Run
from inweights.lab.training._schedule import rate
from inweights.lab.training._seeds import SeededRun, one_by_one
from inweights.theory import not_finite

SAVE_SECONDS = 30.0
DIVERGED = 1e6
"""A loss far above that of any successful training, in units of always answering 0. A single report above it is none of
a training that diverged: linear self-attention of four layers is a polynomial of high degree, and one rare prompt can
have a loss of 1e11, the clipped gradient of which changes little."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training: `loss` is the mean since the last report, in units of the zero predictor's loss."""

    step: int
    steps: int
    loss: float
    tasks_per_second: float


@dataclass(frozen=True)
class Trained:
    """The result of a training: the model, its last loss, its seconds (including those before it was resumed), its
    speed in this run (NaN if no steps were left), the path of its files, and whether this is the process that reports,
    if there are several.
    """

    model: Learner
    loss: float
    seconds: float
    tasks_per_second: float
    path: Path
    first: bool = True


class StoppedError(Exception):
    """Raised when a training was stopped on request, after a checkpoint was saved."""

    def __init__(self, step: int, steps: int, folder: Path) -> None:
        super().__init__(f"Stopped after step {step} of {steps}; all of it is saved in {str(folder)!r}.")
        self.step = step


def train(
    recipe: Recipe,
    folder: Path,
    *,
    device: str = "cpu",
    every: int | None = None,
    compiled: bool | None = None,
    save_seconds: float = SAVE_SECONDS,
    patience: float = 0.0,
    waiting: Callable[[], None] = lambda: None,
    after: Callable[[Progress], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Trains by a recipe, or resumes the training in this folder; `after` is called every `every` steps.

    A training that was killed can be resumed at any point; on a CPU the weights are then the same bit for bit: batches
    depend only on their step, and a checkpoint holds everything else. Once `stop` returns True, a checkpoint is saved
    and `StoppedError` raised. Only one process (or group of processes) can train in a folder: a second one waits for
    `patience` seconds, calling `waiting` meanwhile, and then raises an error.
    """
    processes = Processes(device)
    run = Run(recipe, processes, compiled=compiled)
    if processes.first:
        folder_for("--out", folder)
    with locked(folder, patience=patience, waiting=waiting) if processes.first else nullcontext():
        processes.wait()
        return _trained(run, folder, every or max(1, recipe.steps // 200), save_seconds, after, stop)[0]


def train_seeds(
    recipe: Recipe,
    seeds: Sequence[int],
    folder: Path,
    *,
    device: str = "cpu",
    every: int | None = None,
    save_seconds: float = SAVE_SECONDS,
    after: Callable[[Progress], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Trained]:
    """Trains by a recipe with several seeds, as one batched program where the model has a batched form, else one after
    the other; resumes the training in this folder. Models are in its subfolders `seed-N`, and are those of single
    trainings up to rounding."""
    if one_by_one(recipe):
        each = [(changed(recipe, [f"seed={seed}"]), folder / f"seed-{seed}") for seed in seeds]
        options: dict[str, Any] = {"device": device, "every": every, "save_seconds": save_seconds}
        return [train(one, own, **options, after=after, stop=stop) for one, own in each]
    run = SeededRun(recipe, seeds, Processes(device))
    folder_for("--out", folder)
    with locked(folder):
        return _trained(run, folder, every or max(1, recipe.steps // 200), save_seconds, after, stop)


def _trained(
    run: Run,
    folder: Path,
    every: int,
    save_seconds: float,
    after: Callable[[Progress], None],
    stop: Callable[[], bool],
) -> list[Trained]:
    recipe, processes = run.recipe, run.processes
    before = checkpoint.resume(run, folder)
    begun = int(run.step)
    homes = [home for _, _, home in run.finished(folder)]
    metrics = [Metrics(folder_for("--out", home) / checkpoint.METRICS, begun) for home in homes if processes.first]
    start = saved = record = time.perf_counter()
    loss, speed = before.get("loss", math.nan), math.nan
    high = False  # whether the last report was above DIVERGED
    since = before.get("since", 0)  # steps since the last report, and the sum of their losses
    run.total += torch.tensor(before.get("total", 0.0), dtype=torch.float64, device=run.device)

    def save(step: int, **more: Any) -> None:
        _check(run, step, folder)
        spent = before.get("seconds", 0.0) + time.perf_counter() - start
        about = {"seconds": spent, **({"loss": loss} if math.isfinite(loss) else {}), **more}
        checkpoint.write(folder / checkpoint.CHECKPOINT, run.state(), recipe, seeds=list(run.seeds), **about)

    for step in range(begun + 1, recipe.steps + 1):
        run.advance()
        since += 1
        if step % every == 0 or step == recipe.steps:
            loss = run.mean_loss(since)
            before_high, high = high, not loss < DIVERGED
            if high and (before_high or step == recipe.steps or not math.isfinite(loss)):
                raise _diverged(f"The loss became {loss:.3g}", step, recipe, folder)
            now = time.perf_counter()
            speed, record = len(homes) * recipe.batch * since / (now - record), now
            since = 0
            for each, own in zip(metrics, run.losses, strict=False):
                each.add(step=step, loss=own, rate=rate(recipe, run.step - 1).item(), tasks_per_second=speed)
            if metrics and now - saved > save_seconds and step < recipe.steps and not high:
                save(step)
                saved = now
            after(Progress(step, recipe.steps, loss, speed))
        if step < recipe.steps and stop():
            save(step, since=since, total=run.total.tolist())
            for each in metrics:
                each.close()
            raise StoppedError(step, recipe.steps, folder)
    for each in metrics:
        each.close()
    _check(run, recipe.steps, folder)
    return _written(run, folder, before, begun, time.perf_counter() - start, loss)


def _written(run: Run, folder: Path, before: dict[str, Any], begun: int, here: float, loss: float) -> list[Trained]:
    """Writes the trained models, each with its loss, the seconds of the whole training, the commit and the hardware."""
    recipe, made = run.recipe, run.recipe.steps - begun
    here = here if made else 0.0
    seconds = before.get("seconds", 0.0) + here
    finished = run.finished(folder)
    speed = len(finished) * recipe.batch * made / here if made else math.nan
    losses = run.losses if made else before.get("losses", [loss])
    about = made_with(str(run.device))
    results = []
    for (own, model, home), last in zip(finished, losses, strict=True):
        path = home / checkpoint.MODEL
        if run.processes.first:
            record = {"loss": last, "seconds": seconds, "device": str(run.device), "seeds": list(run.seeds)}
            checkpoint.write(path, model.state_dict(), own, **record, made_with=about)
        results.append(Trained(model.eval(), last, seconds, speed, path, run.processes.first))
    if run.processes.first:
        state = run.state()
        record = {"loss": loss, "losses": losses, "seconds": seconds, "seeds": list(run.seeds)}
        checkpoint.write(folder / checkpoint.CHECKPOINT, state, recipe, **record)
    run.processes.wait()
    return results


def _check(run: Run, step: int, folder: Path) -> None:
    """Raises an error before non-finite weights are saved: the loss of a step does not include its own update."""
    if not_finite(dict(run.model.named_parameters())):
        raise _diverged("The weights became infinite", step, run.recipe, folder)


def _diverged(what: str, step: int, recipe: Recipe, folder: Path) -> InputError:
    return InputError(
        f"{what} before step {step}: train with a `rate` below {recipe.rate:g}. What was saved before is in "
        f"{str(folder)!r}."
    )
