"""Logistic regression, by Newton's method on all prefixes at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from inweights._errors import Problems
from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import earlier

CONVERGED = 1e-10


@PREDICTORS("logistic")
@dataclass(frozen=True, kw_only=True)
class LogisticPredictor(LinearPredictor):
    """`min Σ log(1 + exp(−y ⟨w, x⟩)) + penalty ‖w‖² / 2`, where a label counts as 1 if it is positive, else as −1.

    Predictions are logits `⟨w, x⟩`: their sign is the class, their sigmoid the probability of 1. Bai et al. 2023
    compare with this on labels that are signs.
    """

    penalty: float = 0.1

    def check(self, problems: Problems) -> None:
        problems.unless(self.penalty > 0, f"`penalty` is {self.penalty}, but must be above 0.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        batch, points, dims = xs.shape
        known = earlier(points, xs.device).double()  # (points, points): which examples belong to which prefix
        X = xs.double() * torch.where(ys > 0, 1.0, -1.0).unsqueeze(-1)
        outer = (X.unsqueeze(-1) * X.unsqueeze(-2)).flatten(2)
        penalty = self.penalty * torch.eye(dims, dtype=X.dtype, device=X.device)

        def loss(w: Tensor) -> Tensor:
            return (softplus(-(w @ X.mT)) * known).sum(-1) + self.penalty * w.square().sum(-1) / 2

        w = X.new_zeros(batch, points, dims)
        current = loss(w)
        for _ in range(100):
            miss = torch.sigmoid(-(w @ X.mT))
            gradient = self.penalty * w - (miss * known) @ X
            hessian = ((miss * (1 - miss) * known) @ outer).unflatten(-1, (dims, dims)) + penalty
            step = torch.cholesky_solve(gradient.unsqueeze(-1), torch.linalg.cholesky(hessian)).squeeze(-1)
            slope = (gradient * step).sum(-1)
            if bool((slope <= CONVERGED * (1 + current)).all()):
                break
            length = torch.ones_like(slope)
            for _ in range(30):  # halve steps that would increase the loss
                reached = loss(w - length.unsqueeze(-1) * step)
                uphill = reached > current - 0.25 * length * slope + CONVERGED * current
                if not bool(uphill.any()):
                    break
                length = torch.where(uphill, length / 2, length)
            w, current = w - length.unsqueeze(-1) * step, reached
        return w.to(xs.dtype)
