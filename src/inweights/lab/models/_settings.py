"""Models by name: settings that build a learner for a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from inweights._errors import InputError, Problems
from inweights.lab._registry import Registry
from inweights.lab.models._learner import Learner
from inweights.lab.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a model. `build` draws weights from torch's global generator: seed it before."""

    def __post_init__(self) -> None:
        problems = Problems()
        self.check(problems)
        problems.stop()

    def check(self, problems: Problems) -> None:
        """Adds a problem for each invalid setting."""

    def build(self, task: Task, points: int) -> Learner:
        """A new model for prompts of this task with at most `points` points."""
        raise NotImplementedError


class Shape(NamedTuple):
    """The size of a stack of layers."""

    layers: int
    width: int
    heads: int


SIZES = {
    "tiny": Shape(3, 64, 2),
    "small": Shape(6, 128, 4),
    "standard": Shape(12, 256, 8),
    "seed": Shape(4, 64, 4),
    "bai": Shape(12, 64, 1),
}
"""Sizes by name. The first three are those of Garg et al. 2022; "seed" is the encoder of the project's seed note, "bai"
that of Bai et al. 2023, where the code names eight heads but never splits them."""


@dataclass(frozen=True, kw_only=True)
class Stacked(Settings):
    """A stack of layers with a named size; explicit numbers override it.

    - `size`: tiny, small, standard (3, 6, 12 layers of width 64, 128, 256; Garg et al. 2022), seed or bai.
    - `layers`, `width`: by default those of `size`.
    """

    size: str = "tiny"
    layers: int | None = None
    width: int | None = None

    @property
    def shape(self) -> Shape:
        """Layers, width and heads, with the defaults of `size`."""
        dial = SIZES[self.size]
        layers = dial.layers if self.layers is None else self.layers
        return dial._replace(layers=layers, width=dial.width if self.width is None else self.width)

    def check(self, problems: Problems) -> None:
        _given(problems, layers=self.layers, width=self.width)
        problems.unless(
            self.size in SIZES, f"There is no size {self.size!r}: it must be {', '.join(list(SIZES)[:-1])} or bai."
        )


@dataclass(frozen=True, kw_only=True)
class Sized(Stacked):
    """A stack with attention.

    - `heads`: the number of heads, which must divide the width; by default that of `size`.
    """

    heads: int | None = None

    @property
    def shape(self) -> Shape:
        shape = super().shape
        return shape if self.heads is None else shape._replace(heads=self.heads)

    def check(self, problems: Problems) -> None:
        super().check(problems)
        _given(problems, heads=self.heads)
        if self.size in SIZES and min(self.shape.width, self.shape.heads) >= 1:
            problems.unless(
                self.shape.width % self.shape.heads == 0,
                f"`heads` is {self.shape.heads}, which does not divide the width {self.shape.width}.",
            )


def at_least(problems: Problems, least: float, **settings: float) -> None:
    """Adds a problem for each of these settings that is too small."""
    for name, value in settings.items():
        problems.unless(value >= least, f"`{name}` is {value}, but must be at least {least}.")


def _given(problems: Problems, **settings: int | None) -> None:
    """Adds a problem for each of these settings that is given, but below 1."""
    for name, value in settings.items():
        problems.unless(
            value is None or value >= 1,
            f"`{name}` is {value}, but must be at least 1: leave it out for what `size` says.",
        )


def need_numbers(name: str, task: Task) -> None:
    """Raises an error if a model that reads vectors is used for a task over tokens."""
    if task.loss == "tokens":
        raise InputError(f"The model {name} reads vectors, but the task gives tokens: take the model attention-only.")


MODELS: Registry[Settings] = Registry("model")
