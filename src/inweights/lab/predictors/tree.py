"""A greedily grown regression tree, for comparison on decision-tree tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import earlier


@PREDICTORS("tree")
@dataclass(frozen=True, kw_only=True)
class RegressionTree(Classical):
    """Every node splits by a threshold on one coordinate, chosen to reduce the squared error most (CART).

    `depth` is the maximal depth; `leaf` is the minimal number of examples in a leaf. With `signs` only the signs of the
    inputs are used, which fits the trees of Garg et al. 2022. Among equally good splits the lowest coordinate is
    chosen; scikit-learn chooses at random.
    """

    depth: int = 4
    leaf: int = 1
    signs: bool = False

    def check(self, problems: Problems) -> None:
        problems.unless(self.depth >= 0, f"`depth` is {self.depth}, but must be at least 0.")
        problems.unless(self.leaf >= 1, f"`leaf` is {self.leaf}, but must be at least 1.")

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        X = (xs.sign() if self.signs else xs).mT
        Q = X.mT if queries is None else queries.sign() if self.signs else queries
        below = (X.unsqueeze(-1) <= X.unsqueeze(-2)).transpose(1, 2).flatten(2)
        data = _Data(X, ys.double(), below.double(), Q)
        here = earlier(xs.shape[1], xs.device).expand(len(xs), -1, -1)
        return self._answer(data, here, self.depth).to(xs.dtype)

    def _answer(self, data: _Data, here: Tensor, depth: int) -> Tensor:
        """The predictions `(batch, points)` of a node with, for each prefix, the examples `here`, `(batch, points,
        points)`."""
        labels = data.ys.unsqueeze(1)
        total = here.sum(-1)
        mean = (here * labels).sum(-1) / total.clamp(min=1)
        if depth == 0:
            return mean
        centred = (labels - mean.unsqueeze(-1)) * here
        gain, best = self._gains(data, here, centred, total).max(-1)
        coordinate = best // here.shape[-1]
        asked = data.queries.gather(2, coordinate.unsqueeze(-1)).squeeze(-1)
        column = data.columns.gather(1, coordinate.unsqueeze(-1).expand_as(here))  # (batch, points, points)
        value = column.gather(2, (best % here.shape[-1]).unsqueeze(-1))
        # The threshold lies half way between the nearest examples on its two sides.
        last = column.masked_fill(~here | (column > value), -torch.inf).amax(-1)
        first = column.masked_fill(~here | (column <= value), torch.inf).amin(-1)
        above = column > value
        low, high = (self._answer(data, here & side, depth - 1) for side in (~above, above))
        # If all labels are equal, the gain is only rounding error.
        splits = gain > 1e-14 * (centred.square().sum(-1) + total * mean.square())
        return torch.where(splits, torch.where(asked > (last + first) / 2, high, low), mean)

    def _gains(self, data: _Data, here: Tensor, centred: Tensor, total: Tensor) -> Tensor:
        """`(batch, points, dims × points)`: the reduction of the squared error if a node is split by a coordinate at
        the value of an example. Labels are centred, so that those above sum to minus those below."""
        below = centred @ data.below
        left = here.double() @ data.below
        right = total.unsqueeze(-1) - left
        gains = below.square_() * (1 / left + 1 / right)
        return gains.masked_fill_((left < self.leaf) | (right < self.leaf), 0)


class _Data(NamedTuple):
    """- `columns`: the inputs, `(batch, dims, points)`. `ys`: the labels, `(batch, points)`.
    - `below`: which examples are at most the value of another, for each coordinate, `(batch, points, dims × points)`.
    - `queries`: `(batch, points, dims)`."""

    columns: Tensor
    ys: Tensor
    below: Tensor
    queries: Tensor
