"""Bayesian linear regression, with predictive mean and variance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._innovations import innovations
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import earlier
from inweights.lab.predictors.ridge import ridge_weights


@PREDICTORS("bayesian")
@dataclass(frozen=True, kw_only=True)
class Bayesian(LinearPredictor):
    """`w ~ N(0, prior² I)`, labels with noise of standard deviation `noise`. The mean is ridge regression with
    `λ = noise² / prior²`."""

    noise: float = 1.0
    prior: float = 1.0

    def check(self, problems: Problems) -> None:
        for name, value in (("noise", self.noise), ("prior", self.prior)):
            problems.unless(value > 0, f"`{name}` is {value}, but must be above 0.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        return ridge_weights(xs, ys, (self.noise / self.prior) ** 2)

    def predict_variance(self, xs: Tensor, queries: Tensor | None = None) -> Tensor:
        """`(batch, points, dims)` → `(batch, points)`: the variance of the label of each query given the examples
        before, noise included. It does not depend on the labels."""
        X = self.prior * xs.double()
        Q = X if queries is None else self.prior * queries.double()
        gram = X @ X.mT + self.noise**2 * torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
        (known,) = innovations(gram, X @ Q.mT)
        gone = (known.mT.square() * earlier(X.shape[1], X.device)).sum(-1)
        return (Q.square().sum(-1) - gone + self.noise**2).to(xs.dtype)
