"""What a predictor is: anything that answers after every prefix of a prompt."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from inweights.lab._registry import Registry


@runtime_checkable
class Predictor(Protocol):
    """Classical algorithms and trained models alike."""

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """`(batch, points, dims)`, `(batch, points)` → `(batch, points)`.

        Entry i is the answer to `queries[:, i]`, or to `xs[:, i]` if there are none, after the examples 0 … i − 1. It
        depends on nothing else: not on later examples, nor on its own label.
        """
        ...


PREDICTORS: Registry[Predictor] = Registry("predictor")
