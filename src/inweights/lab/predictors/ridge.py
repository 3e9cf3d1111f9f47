"""Ridge regression, with one penalty for all coordinates or one for each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import LinearPredictor, check_width
from inweights.lab.predictors._innovations import innovations
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import before


def ridge_weights(xs: Tensor, ys: Tensor, penalty: float) -> Tensor:
    """`(XᵀX + penalty · I)⁻¹ Xᵀy` for every prefix, `(batch, points, dims)`, by one factor of `XXᵀ + penalty · I`."""
    X = xs.double()
    gram = X @ X.mT + penalty * torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
    rows, surprises = innovations(gram, X, ys.unsqueeze(-1))
    return before(rows * surprises).to(xs.dtype)


@PREDICTORS("ridge")
@dataclass(frozen=True, kw_only=True)
class Ridge(LinearPredictor):
    """`w = (XᵀX + λ I)⁻¹ Xᵀy`. Bayes-optimal if `w ~ N(0, τ² I)` and `λ = noise² / τ²` (Akyürek et al. 2023)."""

    penalty: float = 1.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.penalty > 0, f"`penalty` is {self.penalty}, but must be above 0; for 0 there is ols.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        return ridge_weights(xs, ys, self.penalty)


@PREDICTORS("weighted-ridge")
@dataclass(frozen=True, kw_only=True)
class WeightedRidge(LinearPredictor):
    """`w = (XᵀX + noise² Σ⁻¹)⁻¹ Xᵀy`: Bayes-optimal if `w ~ N(0, Σ)` (Li et al. 2023). `prior` is the diagonal of Σ."""

    prior: tuple[float, ...]
    noise: float = 1.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.noise > 0, f"`noise` is {self.noise}, but must be above 0.")
        problems.unless(
            len(self.prior) > 0 and min(self.prior) > 0,
            f"`prior` is {self.prior}, but must be variances above 0, one for each coordinate.",
        )

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        check_width("prior", len(self.prior), xs)
        deviations = torch.tensor(self.prior, dtype=torch.float64, device=xs.device).sqrt()
        return (ridge_weights(xs.double() * deviations, ys, self.noise**2) * deviations).to(xs.dtype)
