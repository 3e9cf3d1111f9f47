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


UNITS = {
    "squared": "squared error / mean square of a label without noise",
    "logistic": "share of wrong labels",
    "tokens": "cross entropy in nats",
}


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

    `UNITS` says what they are. Points where there is nothing to know are not numbers.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in predictors}
    for first in range(0, prompts, 256):
        draw = Draw(TEST - seed, 0, min(256, prompts - first), first=first, device=device, dtype=dtype)
        sample = (source or task).sample(draw, points)
        without = "clean" if sample.answers is None else "clean answers"
        target = sample.hidden[without] if clean else sample.target
        for name, predictor in predictors.items():
            answers = predictor.predict_prefixes(sample.xs, sample.ys, sample.queries)
            each = errors(task.loss, answers, target, task.power)
            if sample.scored is not None:
                each = each.where(sample.scored, torch.nan)
            found[name].append(each.cpu())
    return {name: torch.cat(each) for name, each in found.items()}


def errors(loss: Loss, answers: Tensor, target: Tensor, power: float) -> Tensor:
    """`(batch, points)` from answers and targets, several outputs averaged."""
    if loss == "tokens":
        return F.cross_entropy(answers.float().flatten(0, 1), target.flatten(), reduction="none").view_as(target)
    if loss == "logistic":
        return ((answers > 0) != (target > 0)).double()
    each = (answers.double() - target).square() / power
    return each.mean(-1) if each.ndim == 3 else each
