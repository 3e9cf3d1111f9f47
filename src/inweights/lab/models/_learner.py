"""`Learner`: the base class of the lab's models, from prompts to predictions."""

from __future__ import annotations

from functools import singledispatch
from typing import ClassVar

import torch
from torch import Tensor, nn

from inweights._errors import InputError


class Learner(nn.Module):
    """A model that learns from prompts.

    `forward(xs, ys)` takes `(batch, points, dims)` and `(batch, points)` (or `(batch, points, outputs)`), and predicts
    the labels of the last k points: `(batch, k)`, or `(batch, k, outputs)`. A causal model predicts all points at once,
    `k = points`, where prediction i depends on the examples before i and the input i; others predict only the last
    point, `k = 1`.

    - `max_points`: the largest number of points that it has positions for, or None.
    """

    causal: ClassVar[bool] = True
    max_points: int | None = None

    @torch.no_grad()
    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """See `Predictor`. A causal model without other `queries` computes all predictions in one forward pass."""
        points = xs.shape[1]
        if self.max_points is not None and points > self.max_points:
            raise InputError(
                f"The prompts have {points} points, but this model was trained with positions for {self.max_points}: "
                "ask with fewer."
            )
        if self.causal and queries is None:
            return self(xs, ys)
        return ask(self, xs, ys, xs if queries is None else queries)


@singledispatch
def ask(model: Learner, xs: Tensor, ys: Tensor, queries: Tensor) -> Tensor:
    """Prediction i for `queries[:, i]` after the examples before i, by one forward pass for each, unless a model has a
    faster implementation."""
    answers = []
    for i in range(xs.shape[1]):
        # The unknown label of the query is replaced by zero.
        x = torch.cat([xs[:, :i], queries[:, i : i + 1]], 1)
        y = torch.cat([ys[:, :i], torch.zeros_like(ys[:, :1])], 1)
        answers.append(model(x, y)[:, -1:])
    return torch.cat(answers, 1)
