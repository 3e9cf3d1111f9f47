"""Error curves: the error of predictors after 0, 1, … n examples, all on the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights._draw import Shown
from inweights.lab._bands import bootstrap
from inweights.lab._draw import Draw
from inweights.lab._figure import curves_figure
from inweights.lab.predictors import Predictor
from inweights.lab.tasks import Loss, Sample, Task

# Prompts for measurements have negative seeds, which no training uses.
TEST = -1_000_003


UNITS = {
    "squared": "squared error / mean square of a label without noise",
    "logistic": "share of wrong labels",
    "tokens": "cross entropy in nats",
}


class PromptSource(Protocol):
    """A source of prompts: a task, or a task with shifted prompts."""

    def sample(self, draw: Draw, points: int) -> Sample: ...


class Curves(dict[str, Tensor], Shown):
    """Errors of each predictor by name, `(prompts, points)`: entry i after i examples; `unit` is what they count."""

    def __init__(self, errors: Mapping[str, Tensor], unit: str) -> None:
        super().__init__(errors)
        self.unit = unit

    def _draw(self, axes: Any) -> None:
        curves_figure("", self, self.unit).draw(axes)

    def _rows(self) -> list[tuple[str, str]]:
        last = {name: bootstrap(each[:, -1:]) for name, each in self.items()}
        return [(name, f"{b.mean[0]:.3g} [{b.low[0]:.3g}, {b.high[0]:.3g}] at the end") for name, b in last.items()]


def curves(
    task: Task,
    points: int,
    predictors: Mapping[str, Predictor],
    *,
    source: PromptSource | None = None,
    prompts: int = 1280,
    seed: int = 0,
    clean: bool = False,
    power: float | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    after: Callable[[str, int], None] = lambda *_: None,
) -> Curves:
    """Errors of each predictor, `(prompts, points)`: entry i after i examples. They draw themselves: `.plot()`.

    - `source`: where the prompts come from, if not from the task itself.
    - `clean`: whether to compare with labels without noise.
    - `power`: the divisor of squared errors, by default that of the task. For a shifted source, use `shifted_power`.
    - `after`: called with the name of a predictor and the number of prompts measured.

    `UNITS` has their units. Errors are NaN at points that cannot be predicted.
    """
    results: dict[str, list[Tensor]] = {name: [] for name in predictors}
    for first in range(0, prompts, 256):
        draw = Draw(TEST - seed, 0, min(256, prompts - first), first=first, device=device, dtype=dtype)
        sample = (source or task).sample(draw, points)
        without = "clean" if sample.answers is None else "clean answers"
        target = sample.hidden[without] if clean else sample.target
        for name, predictor in predictors.items():
            answers = predictor.predict_prefixes(sample.xs, sample.ys, sample.queries)
            each = errors(task.loss, answers, target, task.power if power is None else power)
            if sample.scored is not None:
                each = each.where(sample.scored, torch.nan)
            results[name].append(each.cpu())
            after(name, draw.rows)
    return Curves({name: torch.cat(each) for name, each in results.items()}, UNITS[task.loss])


def shifted_power(source: PromptSource, points: int, *, prompts: int = 1280, seed: int = 0) -> float:
    """The mean square of a label without noise on the prompts of `curves`. With this divisor, always answering 0 has a
    mean error of 1 under any shift (and more if labels are noisy)."""
    squares = []
    for first in range(0, prompts, 256):
        sample = source.sample(Draw(TEST - seed, 0, min(256, prompts - first), first=first), points)
        clean = sample.hidden["clean" if sample.answers is None else "clean answers"].double().square()
        each = clean.mean(-1) if clean.ndim == 3 else clean
        squares.append(each if sample.scored is None else each.where(sample.scored, torch.nan))
    return torch.cat(squares).nanmean().item()


def errors(loss: Loss, answers: Tensor, target: Tensor, power: float) -> Tensor:
    """The errors `(batch, points)` of predictions, averaged over outputs."""
    if loss == "tokens":
        return F.cross_entropy(answers.float().flatten(0, 1), target.flatten(), reduction="none").view_as(target)
    if loss == "logistic":
        return ((answers > 0) != (target > 0)).double()
    each = (answers.double() - target).square() / power
    return each.mean(-1) if each.ndim == 3 else each
