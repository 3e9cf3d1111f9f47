"""Prompts as tokens: inputs and labels in one token, or in alternating tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def columns(ys: Tensor) -> Tensor:
    """Labels with a dimension for their outputs: `(batch, points, outputs)`."""
    return ys if ys.ndim == 3 else ys.unsqueeze(-1)


def shaped_like(ys: Tensor, answers: Tensor) -> Tensor:
    """Predictions `(batch, k, outputs)`, without the last dimension if the labels have none."""
    return answers if ys.ndim == 3 else answers.squeeze(-1)


def examples(xs: Tensor, ys: Tensor) -> Tensor:
    """All points but the last as tokens `(x, y)`: `(batch, points − 1, dims + outputs)`."""
    return torch.cat([xs[:, :-1], columns(ys)[:, :-1]], -1)


def turns(xs: Tensor, ys: Tensor) -> Tensor:
    """Tokens `(x_1, 0), (0, y_1), (x_2, 0), …`: `(batch, 2 points, dims + outputs)`."""
    labels = columns(ys)
    dims, outputs = xs.shape[-1], labels.shape[-1]
    return torch.stack([F.pad(xs, (0, outputs)), F.pad(labels, (dims, 0))], 2).flatten(1, 2)


def pairs(xs: Tensor, ys: Tensor) -> Tensor:
    """Tokens `(x_{i−1}, y_{i−1}, x_i)`, zeros before the first: `(batch, points, 2 dims + outputs)`."""
    before = F.pad(torch.cat([xs, columns(ys)], -1)[:, :-1], (0, 0, 1, 0))
    return torch.cat([before, xs], -1)
