"""Curves: the error of predictors after 0, 1, … n examples, all on the same prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab._draw import Draw
from inweights.lab.predictors import Predictor
from inweights.lab.tasks import Loss, Sample, Task

# Prompts to measure on come from seeds that no training uses: those are 0 and up, these below.
TEST = -1_000_003


class Source(Protocol):
    """Where prompts come from: a task, or a task with its prompts shifted."""

    def sample(self, draw: Draw, points: int) -> Sample: ...


def curves(
    task: Task,
    points: int,
    predictors: Mapping[str, Predictor],
    *,
    source: Source | None = None,
    prompts: int = 1280,
    seed: int = 0,
    clean: bool = False,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Errors of each predictor, `(prompts, points)`: entry i after i examples.

    - `source`: where the prompts come from, if not from the task itself.
    - `clean`: against the labels without their noise.

    Squared errors are divided by the task's power, so that 1 is always answering 0; labels of two kinds count the
    share that is wrong, tokens the cross entropy in nats.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in predictors}
    for first in range(0, prompts, 256):
        draw = Draw(TEST - seed, 0, min(256, prompts - first), first=first, device=device, dtype=dtype)
        sample = (source or task).sample(draw, points)
        target = sample.hidden["clean"] if clean and sample.answers is None else sample.target
        for name, predictor in predictors.items():
            answers = predictor.predict_prefixes(sample.xs, sample.ys, sample.queries)
            found[name].append(errors(task.loss, answers, target, task.power).cpu())
    return {name: torch.cat(each) for name, each in found.items()}


def errors(loss: Loss, answers: Tensor, target: Tensor, power: float) -> Tensor:
    """`(batch, points)` from answers and targets, several outputs averaged."""
    if loss == "tokens":
        return F.cross_entropy(answers.float().flatten(0, 1), target.flatten(), reduction="none").view_as(target)
    if loss == "logistic":
        return ((answers > 0) != (target > 0)).double()
    each = (answers.double() - target).square() / power
    return each.mean(-1) if each.ndim == 3 else each
