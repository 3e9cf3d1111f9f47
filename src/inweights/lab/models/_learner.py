"""What the models of the lab have in common: prompts in, answers out."""

from __future__ import annotations

from functools import singledispatch
from typing import ClassVar

import torch
from torch import Tensor, nn

from inweights._errors import InputError


class Learner(nn.Module):
    """A model that reads prompts.

    `forward(xs, ys)` takes `(batch, points, dims)` and `(batch, points)` (or `(batch, points, outputs)`), and answers
    for the last points: `(batch, k)`, or `(batch, k, outputs)`. A causal one answers for all points at once, `k =
    points`, and answer i sees the examples before i and the input i; others answer for the last point alone, `k = 1`.

    - `max_points`: the longest prompt that it has positions for, or None.
    """

    causal: ClassVar[bool] = True
    max_points: int | None = None

    @torch.no_grad()
    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """As of a `Predictor`; a causal model that is asked about the next points answers them all in one run."""
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
    """Answer i to `queries[:, i]` after the examples before i: one run for each, unless a model knows better."""
    answers = []
    for i in range(xs.shape[1]):
        # The label of the query is not there yet: a zero takes its place.
        x = torch.cat([xs[:, :i], queries[:, i : i + 1]], 1)
        y = torch.cat([ys[:, :i], torch.zeros_like(ys[:, :1])], 1)
        answers.append(model(x, y)[:, -1:])
    return torch.cat(answers, 1)
