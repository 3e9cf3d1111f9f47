"""Shifts: prompts from another distribution than a model was trained on.

Garg et al. 2022 test with most of these, von Oswald et al. 2023 with scaled inputs and weights. Garg et al. rotate a
covariance once for a whole test; here each prompt has its own rotation, so that no result depends on one direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from inweights._errors import InputError, Problems
from inweights.lab._draw import Draw
from inweights.lab._registry import Registry
from inweights.lab.tasks._rotations import rotations, skewed_roots
from inweights.lab.tasks._task import Sample, Task

# Hidden variables of each point, not of a whole prompt.
OF_POINTS = ("clean", "logits", "middle")


@dataclass(frozen=True, kw_only=True)
class PromptShift:
    """The base of shifts. Shifts of the inputs implement `moved`; others override `sample`."""

    def __post_init__(self) -> None:
        problems = Problems()
        self.check(problems)
        problems.stop()

    def check(self, problems: Problems) -> None:
        """Adds a problem for each invalid setting."""

    def moved(self, draw: Draw, xs: Tensor) -> Tensor:
        """The inputs that replace `xs`, `(batch, points, dims)`."""
        return xs

    def sample(self, task: Task, draw: Draw, points: int) -> Sample:
        """A batch of the task's prompts, shifted."""
        self.needs(task.pointwise, task, "labels that are functions of their inputs")
        xs = self.moved(draw, task.inputs(draw, points))
        ys, hidden = task.labels(draw, xs)
        return Sample(xs, ys, hidden)

    def needs(self, holds: bool, task: Task, what: str) -> None:
        """Raises `InputError` unless the task has what the shift needs."""
        if not holds:
            raise InputError(f"`task` is {type(task).__name__}, but {type(self).__name__} needs one with {what}.")

    def on(self, task: Task) -> Shifted:
        """A source of prompts of the task, shifted."""
        return Shifted(task, self)


class Shifted(NamedTuple):
    """A task and a shift of its prompts."""

    task: Task
    shift: PromptShift

    def sample(self, draw: Draw, points: int) -> Sample:
        return self.shift.sample(self.task, draw, points)


SHIFTS: Registry[PromptShift] = Registry("shift")


@SHIFTS("scaled-inputs")
@dataclass(frozen=True, kw_only=True)
class ScaledInputs(PromptShift):
    """Inputs times `factor`."""

    factor: float = 2.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.factor != 0, "`factor` is 0, but must not be: nothing would be left to learn from.")

    def moved(self, draw: Draw, xs: Tensor) -> Tensor:
        return self.factor * xs


@SHIFTS("skewed-inputs")
@dataclass(frozen=True, kw_only=True)
class SkewedInputs(PromptShift):
    """Normal inputs get the variances 1, 1/4, 1/9, … with a mean of 1, along random axes."""

    def moved(self, draw: Draw, xs: Tensor) -> Tensor:
        axes = rotations(draw, xs.shape[2])
        return (xs @ axes * skewed_roots(draw, xs.shape[2])) @ axes.mT


@SHIFTS("subspace")
@dataclass(frozen=True, kw_only=True)
class Subspace(PromptShift):
    """Inputs are projected to a random subspace with `share` of the dimensions, and rescaled to their mean square."""

    share: float = 0.5

    def check(self, problems: Problems) -> None:
        problems.unless(0 < self.share <= 1, f"`share` is {self.share}, but must be above 0 and at most 1.")

    def moved(self, draw: Draw, xs: Tensor) -> Tensor:
        dims = xs.shape[2]
        kept = max(1, int(self.share * dims))
        axes = rotations(draw, dims)[:, :, :kept]
        return (xs @ axes) @ axes.mT * math.sqrt(dims / kept)


@SHIFTS("scaled-weights")
@dataclass(frozen=True, kw_only=True)
class ScaledWeights(PromptShift):
    """The weights of linear functions times `factor`; noise stays as it is."""

    factor: float = 2.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.factor != 0, "`factor` is 0, but must not be: all labels would be 0.")

    def sample(self, task: Task, draw: Draw, points: int) -> Sample:
        self.needs(task.linear, task, "labels that are linear in their inputs")
        xs, ys, hidden, *_ = super().sample(task, draw, points)
        clean = self.factor * hidden["clean"]
        scaled = {"w": self.factor * hidden["w"], "clean": clean}
        return Sample(xs, ys - hidden["clean"] + clean, {**hidden, **scaled})


@SHIFTS("noisy-labels")
@dataclass(frozen=True, kw_only=True)
class NoisyLabels(PromptShift):
    """Normal noise on all labels; `clean` has none."""

    noise: float = 1.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.noise >= 0, f"`noise` is {self.noise}, but must be at least 0.")

    def sample(self, task: Task, draw: Draw, points: int) -> Sample:
        self.needs(task.loss == "squared", task, "labels that are numbers, not classes")
        sample = task.sample(draw, points)
        return sample._replace(ys=sample.ys + self.noise * draw.normal(*sample.ys.shape[1:]))


@dataclass(frozen=True, kw_only=True)
class Asked(PromptShift):
    """The base of shifts with other queries than the next point after each prefix."""

    def asked(self, task: Task, draw: Draw, points: int) -> tuple[Tensor, Tensor]:
        """Inputs of the examples and of the queries, both `(batch, points, dims)`."""
        raise NotImplementedError

    def sample(self, task: Task, draw: Draw, points: int) -> Sample:
        self.needs(task.pointwise, task, "labels that are functions of their inputs")
        xs, queries = self.asked(task, draw, points)
        # One call for both, so that the functions are the same.
        ys, hidden = task.labels(draw, torch.cat([xs, queries], 1))
        clean = hidden["clean"][:, points:]
        hidden |= {name: hidden[name][:, :points] for name in OF_POINTS if name in hidden}
        return Sample(xs, ys[:, :points], hidden | {"clean answers": clean}, queries, ys[:, points:])


@SHIFTS("orthants")
@dataclass(frozen=True, kw_only=True)
class Orthants(Asked):
    """The examples of a prompt lie in one random orthant, and each query in its own random orthant."""

    def asked(self, task: Task, draw: Draw, points: int) -> tuple[Tensor, Tensor]:
        xs, queries = task.inputs(draw, points), task.inputs(draw, points)
        signs = 2 * draw.bernoulli(0.5, 2, points, xs.shape[2]) - 1
        return xs.abs() * signs[:, 0, :1], queries.abs() * signs[:, 1]


@SHIFTS("repeated-query")
@dataclass(frozen=True, kw_only=True)
class RepeatedQuery(Asked):
    """The query is a random one of the examples before it; without examples it is the next input."""

    def asked(self, task: Task, draw: Draw, points: int) -> tuple[Tensor, Tensor]:
        xs = task.inputs(draw, points)
        before = torch.arange(points, device=xs.device)
        chosen = (draw.uniform(points) * before).long().minimum((before - 1).clamp(min=0))
        return xs, xs.gather(1, chosen.unsqueeze(2).expand_as(xs))
