"""Linear regression with weights of unequal spread."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.linear import Linear


@TASKS("hetero")
@dataclass(frozen=True, kw_only=True)
class Hetero(Linear):
    """`w ~ N(0, diag(1, 1/4, 1/9, …))`, `x ~ N(0, I)`: Li et al. 2023, *Transformers as Algorithms*.

    The best predictor is a ridge regression with a penalty for each coordinate.
    """

    @property
    def power(self) -> float:
        return sum(self.variances)

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of each weight: the diagonal of the prior covariance."""
        return tuple(i**-2.0 for i in range(1, self.dims + 1))

    def prior(self, draw: Draw, xs: Tensor) -> Tensor:
        return draw.normal(self.dims) / torch.arange(1, self.dims + 1, device=draw.device)
