"""Newton's iteration for the inverse of the Gram matrix, which deep transformers resemble (Fu et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import grams, moments, times


@PREDICTORS("newton")
@dataclass(frozen=True, kw_only=True)
class Newton(LinearPredictor):
    """`M ← 2M − M S M` from `M = α S`, then `w = M Xᵀy`, where `S = XᵀX` (Fu et al. 2024).

    `start` chooses α: `1/‖S Sᵀ‖` in the Frobenius norm, as in their `code`, or `2/‖S Sᵀ‖` in the spectral norm, as in
    their `paper`. The latter is the limit of convergence: along the direction of the largest eigenvalue nothing is
    learned, so it is not the default.
    """

    steps: int = 3
    start: Literal["code", "paper"] = "code"

    def check(self, problems: Problems) -> None:
        problems.unless(self.steps >= 0, f"`steps` is {self.steps}, but must be at least 0.")
        problems.unless(self.start in ("code", "paper"), f"`start` is {self.start!r}, but must be code or paper.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        S = grams(xs)
        if self.start == "code":
            size = torch.linalg.matrix_norm(S @ S)
        else:
            size = torch.linalg.eigvalsh(S)[..., -1].square() / 2
        M = S / size.clamp(min=torch.finfo(xs.dtype).tiny)[..., None, None]
        for _ in range(self.steps):
            M = 2 * M - M @ S @ M
        return times(M, moments(xs, ys))
