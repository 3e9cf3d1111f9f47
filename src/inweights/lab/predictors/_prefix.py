"""Sums over the examples before each point, which most predictors need."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def before(values: Tensor) -> Tensor:
    """`(batch, points, …)` → the same shape: entry i is the sum of the entries 0 … i − 1, so that entry 0 is zero."""
    return pad(values[:, :-1].cumsum(1), (0, 0) * (values.ndim - 2) + (1, 0))


def grams(xs: Tensor) -> Tensor:
    """`(batch, points, dims)` → `(batch, points, dims, dims)`: `Σ x xᵀ` over the examples before."""
    return before(xs.unsqueeze(-1) * xs.unsqueeze(-2))


def moments(xs: Tensor, ys: Tensor) -> Tensor:
    """`(batch, points, dims)`, `(batch, points)` → `(batch, points, dims)`: `Σ x y` over the examples before."""
    return before(xs * ys.unsqueeze(-1))


def counts(xs: Tensor) -> Tensor:
    """The number of examples before each point, `(points,)`, for divisions: 1 where there are none."""
    return torch.arange(xs.shape[1], dtype=xs.dtype, device=xs.device).clamp(min=1)


def earlier(points: int, device: torch.device) -> Tensor:
    """`(points, points)`, true at (i, j) where example j comes before point i."""
    return torch.ones(points, points, dtype=torch.bool, device=device).tril(-1)


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """`(…, a, b)`, `(…, b)` → `(…, a)`."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
