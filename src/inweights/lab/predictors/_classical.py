"""Base classes of classical predictors: checked settings, and predictions that are linear in the query."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inweights._errors import InputError, Problems


@dataclass(frozen=True, kw_only=True)
class Classical:
    """The base of predictors, which are dataclasses of their settings."""

    def __post_init__(self) -> None:
        problems = Problems()
        self.check(problems)
        problems.stop()

    def check(self, problems: Problems) -> None:
        """Adds a problem for each invalid setting."""


@dataclass(frozen=True, kw_only=True)
class LinearPredictor(Classical):
    """Predicts `⟨w, query⟩`, with `w` fitted to the examples before."""

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        """`(batch, points, dims)`, `(batch, points)` → `(batch, points, dims)`: entry i is `w` after i examples."""
        raise NotImplementedError

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """`(batch, points, dims)`, `(batch, points)` → `(batch, points)`, entry i after the examples before i."""
        return (self.weights(xs, ys) * (xs if queries is None else queries)).sum(-1)


def check_width(name: str, width: int, xs: Tensor) -> None:
    """Raises an error if a setting is for another width than that of the inputs."""
    if width != xs.shape[-1]:
        raise InputError(f"`{name}` is for {width} dimensions, but the inputs have {xs.shape[-1]}.")
