"""Stochastic gradient descent: one step for each example, in the order of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import earlier


@PREDICTORS("sgd")
@dataclass(frozen=True, kw_only=True)
class SGD(LinearPredictor):
    """`w ← w − 2 rate (x xᵀ w − y x + penalty w)`, one pass from `w = 0` (Akyürek et al. 2023, theorem 1).

    The errors before each step satisfy a triangular system: each is its label minus the contributions of previous
    steps. One solve gives all errors, and with them the weights after every example.
    """

    rate: float = 0.02
    penalty: float = 0.0

    def check(self, problems: Problems) -> None:
        problems.unless(self.rate > 0, f"`rate` is {self.rate}, but must be above 0.")
        problems.unless(self.penalty >= 0, f"`penalty` is {self.penalty}, but must be at least 0.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        points, step = xs.shape[1], 2 * self.rate
        at = torch.arange(points, device=xs.device, dtype=xs.dtype)
        age = (at.unsqueeze(1) - at - 1).clamp(min=0)
        kept = earlier(points, xs.device) * (1 - step * self.penalty) ** age  # of a step, at later points
        errors = torch.linalg.solve_triangular(
            step * (xs @ xs.mT) * kept, ys.to(xs.dtype).unsqueeze(-1), upper=False, unitriangular=True
        )
        return step * (kept @ (errors * xs))
