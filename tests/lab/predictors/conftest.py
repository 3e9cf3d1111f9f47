"""A prompt that all tests of predictors share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.tasks import Linear


@pytest.fixture
def prompt() -> tuple[Tensor, Tensor]:
    """Four prompts of 13 points in 5 dimensions, float64, with a little noise."""
    sample = Linear(dims=5, noise=0.3).sample(Draw(1, 0, 4, dtype=torch.float64), 13)
    return sample.xs, sample.ys
