"""The mean label of the nearest examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import earlier


@PREDICTORS("nearest")
@dataclass(frozen=True, kw_only=True)
class Nearest(Classical):
    """The `neighbours` nearest examples, or all while there are fewer (three in Garg et al. 2022)."""

    neighbours: int = 3

    def check(self, problems: Problems) -> None:
        problems.unless(self.neighbours >= 1, f"`neighbours` is {self.neighbours}, but must be at least 1.")

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        points = xs.shape[1]
        asked = xs if queries is None else queries
        distances = torch.cdist(asked, xs, compute_mode="donot_use_mm_for_euclid_dist")  # avoids cancellation
        distances = distances.masked_fill(~earlier(points, xs.device), torch.inf)
        result, where = distances.topk(min(self.neighbours, points), largest=False)
        near = result.isfinite().to(xs.dtype)
        labels = ys.to(xs.dtype).unsqueeze(1).expand(-1, points, -1).gather(-1, where)
        return (labels * near).sum(-1) / near.sum(-1).clamp(min=1)
