"""Means with bootstrap bands."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from inweights._resample import middle, resamples


class Band(NamedTuple):
    """A mean and a 95% interval around it; all of shape `(...)`."""

    mean: Tensor
    low: Tensor
    high: Tensor


def bootstrap(samples: Tensor, *, draws: int = 1000, seed: int = 0) -> Band:
    """The mean over the first dimension of `(trials, ...)` and its bootstrap interval over trials.

    NaNs are treated as missing values.
    """
    generator = torch.Generator().manual_seed(seed)
    trials = samples.shape[0]
    # How often each trial is drawn, as a matrix: resampled means are one product.
    drawn = resamples(trials, draws, generator)
    counts = torch.zeros(draws, trials, dtype=torch.float64).scatter_add_(
        1, drawn, torch.ones(draws, trials, dtype=torch.float64)
    )
    flat = samples.double().flatten(1) if samples.ndim > 1 else samples.double().unsqueeze(1)
    there = (~flat.isnan()).double()
    means = ((counts @ flat.nan_to_num()) / (counts @ there)).reshape(draws, *samples.shape[1:])
    return Band(samples.double().nanmean(0), *middle(means))
