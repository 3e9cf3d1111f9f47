"""The interface of predictors: predictions after every prefix of a prompt."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from inweights.lab._registry import Registry


@runtime_checkable
class Predictor(Protocol):
    """The common interface of classical algorithms and trained models."""

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """`(batch, points, dims)`, `(batch, points)` → `(batch, points)`.

        Entry i is the prediction for `queries[:, i]`, or for `xs[:, i]` without queries, after the examples 0 … i − 1.
        It does not depend on later examples, nor on its own label.
        """
        ...


PREDICTORS: Registry[Predictor] = Registry("predictor")
