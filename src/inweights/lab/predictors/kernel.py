"""Kernel ridge regression, which is also the mean of a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._innovations import innovations
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import earlier


@PREDICTORS("kernel-ridge")
@dataclass(frozen=True, kw_only=True)
class KernelRidge(Classical):
    """`k(q)ᵀ (K + λ I)⁻¹ y` with `k(x, x') = exp(−‖x − x'‖² / (2 scale²))`."""

    penalty: float = 1.0
    scale: float = 1.0

    def check(self, problems: Problems) -> None:
        for name, value in (("penalty", self.penalty), ("scale", self.scale)):
            problems.unless(value > 0, f"`{name}` is {value}, but must be above 0.")

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        X = xs.double() / self.scale
        Q = X if queries is None else queries.double() / self.scale
        gram = _rbf(X, X) + self.penalty * torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
        known, surprises = innovations(gram, _rbf(X, Q), ys.unsqueeze(-1))
        return ((known * surprises).mT * earlier(X.shape[1], X.device)).sum(-1).to(xs.dtype)


def _rbf(a: Tensor, b: Tensor) -> Tensor:
    return (-torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square() / 2).exp()
