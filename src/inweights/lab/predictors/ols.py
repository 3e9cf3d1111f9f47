"""Minimum-norm least squares."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS


@PREDICTORS("ols")
@dataclass(frozen=True, kw_only=True)
class OLS(LinearPredictor):
    """Minimum-norm least squares, also for fewer examples than dimensions and for linearly dependent inputs.

    One pass over the examples (Greville 1960). `P` is the pseudoinverse of `Σ x xᵀ`, `free` projects on the complement
    of the examples' span. An example either adds a new direction, along which it is fitted exactly, or corrects the
    weights by `P x`; both update `P` by Joseph's formula, which keeps it positive under rounding. In float64, as `P` is
    large where there are about as many examples as dimensions.
    """

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        batch, points, dims = xs.shape
        rounding = torch.finfo(xs.dtype).eps * max(points, dims)
        free = torch.eye(dims, dtype=torch.float64, device=xs.device).repeat(batch, 1, 1)
        P = torch.zeros_like(free)
        w = free.new_zeros(batch, dims, 1)
        results = [w]
        for x, y in zip(xs[:, :-1].double().unsqueeze(-1).unbind(1), ys[:, :-1].double().unbind(1), strict=True):
            new, old = free @ (free @ x), P @ x  # projected twice, against rounding
            length, spread = new.mT @ new, 1 + x.mT @ old
            opens = length > rounding**2 * (x.mT @ x)
            direction = torch.where(opens, new / length, 0)
            gain = torch.where(opens, direction, old / spread)
            w = w + gain * (y[:, None, None] - x.mT @ w)
            P.baddbmm_(torch.cat([gain, -old], -1), torch.cat([spread * gain - old, gain], -1).mT)
            free.baddbmm_(direction, new.mT, alpha=-1)
            results.append(w)
        return torch.cat(results, -1).mT.to(xs.dtype)
