"""Predictors for labels with several components: one predictor applied to each component."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._predictor import PREDICTORS, Predictor


@PREDICTORS("outputs")
@dataclass(frozen=True, kw_only=True)
class Outputs(Classical):
    """Labels of shape `(batch, points, outputs)`: each output is a separate prompt for the predictor `of`."""

    of: Predictor

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """`(batch, points, dims)`, `(batch, points, outputs)` → `(batch, points, outputs)`."""
        outputs = ys.shape[2]
        prompts = ys.permute(2, 0, 1).flatten(0, 1)
        asked = None if queries is None else queries.repeat(outputs, 1, 1)
        result = self.of.predict_prefixes(xs.repeat(outputs, 1, 1), prompts, asked)
        return result.unflatten(0, (outputs, -1)).permute(1, 2, 0)
