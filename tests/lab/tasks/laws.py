"""Draws of tasks, and tests of their distributions."""

from __future__ import annotations

import torch
from scipy import stats
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.tasks import TASKS, Sample

# Some hundred laws are tested: p-values below this would mean that one does not hold, not bad luck.
LIKELY = 1e-5


def sample(name: str, rows: int, points: int, *, seed: int = 11, step: int = 0, **settings: object) -> Sample:
    return TASKS.make(name, **settings).sample(Draw(seed, step, rows, dtype=torch.float64), points)


def fits(values: Tensor, law: str, *args: float) -> bool:
    """Whether values fit a distribution of scipy, by the Kolmogorov-Smirnov test."""
    return bool(stats.kstest(values.flatten().numpy(), law, args).pvalue > LIKELY)


def even(counts: Tensor) -> bool:
    """Whether counts could be those of equally likely cells."""
    return bool(stats.chisquare(counts.numpy()).pvalue > LIKELY)


def covariance(vectors: Tensor) -> Tensor:
    flat = vectors.reshape(-1, vectors.shape[-1])
    return flat.T @ flat / len(flat)


def close(measured: Tensor, wanted: Tensor, within: float) -> bool:
    """Relative to the largest entry."""
    return bool((measured - wanted).abs().max() < within * wanted.abs().max())
