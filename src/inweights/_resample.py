"""The bootstrap: which trials each resampling draws, and the interval of 95% of the resampled values."""

from __future__ import annotations

import torch
from torch import Tensor


def resamples(n: int, draws: int, generator: torch.Generator) -> Tensor:
    """Indices `(draws, n)`: each row draws n of n trials with replacement."""
    return torch.randint(n, (draws, n), generator=generator)


def middle(values: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of the 95% interval of resampled values `(draws, ...)`; NaN is left out."""
    return values.nanquantile(0.025, 0), values.nanquantile(0.975, 0)
