"""The predictor that always answers 0. Errors of others are reported relative to its error."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS


@PREDICTORS("zero")
@dataclass(frozen=True, kw_only=True)
class Zero(LinearPredictor):
    """`w = 0`."""

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        return torch.zeros_like(xs)
