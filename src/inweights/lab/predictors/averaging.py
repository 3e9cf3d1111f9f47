"""The mean of `x y`: one step of gradient descent, as computed by the simplest attention."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import counts, moments


@PREDICTORS("averaging")
@dataclass(frozen=True, kw_only=True)
class Averaging(LinearPredictor):
    """`w = mean of xᵢ yᵢ` (Garg et al. 2022): unbiased if `x ~ N(0, I)`. If `x` is always 1, it is the running mean of
    the labels."""

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        return moments(xs, ys) / counts(xs).unsqueeze(-1)
