"""Predictions for every query after every prefix, as validation needs them."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import Predictor


def every_query(predictor: Predictor, xs: Tensor, ys: Tensor, queries: Tensor) -> Tensor:
    """Predictions `(batch, points, points)`: entry (i, j) is that for query j after i examples.

    Computed at once if the predictor has weights, else query by query.
    """
    if isinstance(predictor, LinearPredictor):
        return predictor.weights(xs, ys) @ queries.mT
    asked = (query.unsqueeze(1).expand_as(xs) for query in queries.unbind(1))
    return torch.stack([predictor.predict_prefixes(xs, ys, query) for query in asked], -1)
