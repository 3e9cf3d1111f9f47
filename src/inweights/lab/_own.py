"""The user's own tasks, shifts, models and predictors: Python files that register them, run only on request."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inweights._errors import InputError
from inweights._read import read_text
from inweights.lab._draw import Draw
from inweights.lab._registry import Registry
from inweights.lab.models import MODELS
from inweights.lab.predictors import PREDICTORS
from inweights.lab.tasks import SHIFTS, TASKS, Task

REGISTRIES: dict[str, Registry[Any]] = {"task": TASKS, "shift": SHIFTS, "model": MODELS, "predictor": PREDICTORS}

PREFIX = "inweights_own_"
POINTS, ROWS = 16, 8  # the size of the batch that a task is tested with


@dataclass(frozen=True)
class Own:
    """A user's file: its path and its content, so that it can be sent to other machines."""

    path: str
    source: str

    @property
    def module(self) -> str:
        """The name of its module, which depends on its content: a changed file is another module."""
        return PREFIX + hashlib.sha256(self.source.encode()).hexdigest()[:12]


def load_own(paths: Iterable[Path] | None) -> tuple[Own, ...]:
    """Runs each of these files once, which registers what they define."""
    results = []
    for path in paths or ():
        results.append(Own(str(path), read_text(path, "The file of --load")))
    enter(results)
    return tuple(results)


def enter(files: Iterable[Own]) -> None:
    """Registers what these files define. If a file has an error, nothing of it stays registered."""
    for own in files:
        if own.module in sys.modules:
            continue
        before = {what: registry.kinds() for what, registry in REGISTRIES.items()}
        try:
            _run(own)
            new = {what: [n for n in registry if n not in before[what]] for what, registry in REGISTRIES.items()}
            if not any(new.values()):
                raise InputError('it enters nothing: write @TASKS("name") above a task.')
            for name in new["task"]:
                _try(name)
        except InputError as error:
            sys.modules.pop(own.module, None)
            for what, registry in REGISTRIES.items():
                registry.restore(before[what])
            raise InputError(f"--load is {own.path!r}, but {error}") from None


def _run(own: Own) -> None:
    module = types.ModuleType(own.module)
    module.__file__ = own.path
    sys.modules[own.module] = module  # dataclasses look their module up there
    try:
        exec(compile(own.source, own.path, "exec"), module.__dict__)
    except InputError as error:
        text = str(error)
        raise InputError(text[0].lower() + text[1:]) from None
    except Exception as error:  # user code may raise anything
        line = getattr(error, "lineno", None) or (error.__traceback__ and _last_line(error, own.path))
        raise InputError(f"line {line} fails: {type(error).__name__}: {error}") from None


def _last_line(error: BaseException, path: str) -> int | None:
    """The line of this file that caused the error."""
    result, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            result = trace.tb_lineno
        trace = trace.tb_next
    return result


def _try(name: str) -> None:
    """Tests a task with its default settings, if all settings have defaults."""
    try:
        task = TASKS.make(name)
    except InputError as error:
        if " needs " in str(error):  # settings without a default: tested later, with those of a recipe
            return
        raise InputError(f"the task {name!r} cannot be made: {error}") from None
    if result := faults(task, POINTS):
        raise InputError(" ".join(f"the task {name!r} {fault}." for fault in result))


def is_own(kind: object) -> bool:
    """Whether this is an instance of a class from a user's file."""
    return type(kind).__module__.startswith(PREFIX)


def own_modules(*kinds: object) -> list[str]:
    """The modules of the user's files that these objects are from."""
    return sorted({type(kind).__module__ for kind in kinds if is_own(kind)})


def faults(task: Task, points: int) -> list[str]:
    """The faults of a task, detected by drawing prompts: each completes a sentence that begins with the task's name."""
    try:
        one, two = (task.sample(Draw(0, 0, ROWS), points) for _ in range(2))
        alone = task.sample(Draw(0, 0, 1, first=3), points)
    except InputError as error:
        return [f"refuses prompts of {points} points ({error})"]
    except Exception as error:  # the task's code may raise anything
        return [f"cannot be drawn from ({type(error).__name__}: {error})"]
    inputs = (ROWS, points) if task.loss == "tokens" else (ROWS, points, task.dims)
    labels = (ROWS, points) if task.outputs == 1 or task.loss == "tokens" else (ROWS, points, task.outputs)
    clean = one.hidden.get("clean")
    shapes = [
        f"draws {what} of shape {tuple(results.shape)}, but must draw {wanted}"
        for what, results, wanted in (("inputs", one.xs, inputs), ("labels", one.ys, labels))
        if tuple(results.shape) != wanted
    ]
    if task.loss != "tokens" and (clean is None or clean.shape != one.ys.shape):
        shapes.append("must give its labels without noise as `clean` beside what is hidden")
    if shapes:
        return shapes
    results = []
    if not (torch.equal(one.xs, two.xs) and torch.equal(one.ys, two.ys)):
        results.append("gives other numbers for the same draw: take all that is random from `draw`")
    elif not torch.allclose(alone.ys[0].double(), one.ys[3].double(), rtol=1e-3, atol=1e-5):
        results.append("gives a prompt other labels alone than beside others: no prompt may depend on the rest")
    if not (one.xs.isfinite().all() and one.ys.isfinite().all()):
        results.append("draws numbers that are not finite")
    elif task.loss == "squared" and clean is not None:
        mean, spread = power(task, points)
        if abs(mean - task.power) > 4 * spread and not 0.8 < mean / task.power < 1.25:
            results.append(
                f"says that its `power` is {task.power:.4g}, but the mean square of its labels without noise is "
                f"{mean:.4g} ± {spread:.2g}"
            )
    return results


def power(task: Task, points: int = POINTS, prompts: int = 1024) -> tuple[float, float]:
    """The mean square of a task's labels without noise, estimated on drawn prompts, and its standard error."""
    sample = task.sample(Draw(1, 0, prompts), points)
    squares = sample.hidden["clean"].double().square()
    squares = squares.mean(-1) if squares.ndim == 3 else squares
    each = (squares if sample.scored is None else squares.where(sample.scored, torch.nan)).nanmean(1)
    return each.nanmean().item(), (each.nan_to_num().std() / prompts**0.5).item()
