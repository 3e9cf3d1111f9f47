"""The interface of tasks: a task is a distribution of prompts, each with a new function to learn from examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab._registry import Registry

Loss = Literal["squared", "logistic", "tokens"]


class Sample(NamedTuple):
    """A batch of prompts.

    - `xs`: inputs, `(batch, points, dims)`; for tasks over tokens `(batch, points)`, integers.
    - `ys`: labels, `(batch, points)`, or `(batch, points, outputs)` if there are several. Point i is the query after
      the examples 0 … i − 1, for every i.
    - `hidden`: latent variables: `ys` without noise under `clean`, the weights under `w`, …
    - `queries`, `answers`: other inputs to predict after each prefix than the next point, and their labels; or None.
    - `scored`: `(batch, points)`, true where the label can be predicted; training ignores other points. None: all.
    """

    xs: Tensor
    ys: Tensor
    hidden: dict[str, Tensor]
    queries: Tensor | None = None
    answers: Tensor | None = None
    scored: Tensor | None = None

    @property
    def target(self) -> Tensor:
        """The labels to predict after each prefix."""
        return self.ys if self.answers is None else self.answers


@dataclass(frozen=True, kw_only=True)
class Task:
    """The base of tasks. Inputs and labels are drawn separately, so that a shift can replace the inputs.

    `dims` is the width of the inputs.

    - `loss`: "squared"; "logistic" where labels are 1 and −1; "tokens" where they are integers.
    - `pointwise`: a label is a function of its own input, and noise; only then can a shift replace the inputs.
    - `linear`: that function is `⟨w, x⟩`.
    """

    dims: int = 20

    loss: ClassVar[Loss] = "squared"
    pointwise: ClassVar[bool] = True
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = Problems()
        problems.unless(self.dims >= 1, f"`dims` is {self.dims}, but must be at least 1.")
        problems.unless(
            self.loss == "logistic" or type(self).power is not Task.power,
            f"The class {type(self).__name__} must say its `power`, the mean square of a label without noise, by which "
            "losses are divided: add a property that returns it.",
        )
        self.check(problems)
        problems.stop()

    def check(self, problems: Problems) -> None:
        """Adds a problem for each invalid setting."""

    @property
    def outputs(self) -> int:
        """The number of components of a label; for tasks over tokens, the size of the vocabulary."""
        return 1

    @property
    def power(self) -> float:
        """The loss of always answering 0, by which losses are divided.

        That is the mean square of a label without noise (of each component, if there are several); log 2 for logistic
        losses; the logarithm of the size of the vocabulary for tokens. Only the logistic loss has a default.
        """
        assert self.loss == "logistic"
        return math.log(2)

    def inputs(self, draw: Draw, points: int) -> Tensor:
        """Draws inputs, `(batch, points, dims)`; standard normal unless a task overrides this."""
        return draw.normal(points, self.dims)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Labels of these inputs under a function drawn for each prompt, and the latent variables."""
        raise NotImplementedError

    def sample(self, draw: Draw, points: int, *, active: Tensor | int | None = None) -> Sample:
        """Draws a batch. If `active` is given (a curriculum), inputs are zero after the first `active` coordinates."""
        xs = curtail(self.inputs(draw, points), active)
        ys, hidden = self.labels(draw, xs)
        return Sample(xs, ys, hidden)


def curtail(xs: Tensor, active: Tensor | int | None) -> Tensor:
    """Inputs `(..., dims)` with zeros after the first `active` coordinates; unchanged if it is None."""
    return xs if active is None else xs * (torch.arange(xs.shape[-1], device=xs.device) < active)


def constants(values: Sequence[float], draw: Draw) -> Tensor:
    """Numbers as a tensor, created on the device of a draw: a copy from the host cannot be part of a CUDA graph."""
    return torch.stack([torch.full((), value, dtype=draw.dtype, device=draw.device) for value in values])


TASKS: Registry[Task] = Registry("task")
