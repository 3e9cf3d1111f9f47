"""Linear regression on a finite pool of tasks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.linear import Linear


@TASKS("pool")
@dataclass(frozen=True, kw_only=True)
class Pool(Linear):
    """`w` is one of `size` vectors, which are themselves drawn from N(0, I): Raventós et al. 2023.

    The pool depends only on `which`, not on the seed of the prompts: tests of a model need the pool that it was trained
    on. With `fresh` every prompt has a new `w`, for tests outside the pool. The power is the expectation over pools;
    that of a small pool may differ.
    """

    dims: int = 8
    noise: float = 0.5
    size: int = 64
    which: int = 0
    fresh: bool = False

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.size >= 1, f"`size` is {self.size}, but must be at least 1.")
        problems.unless(self.which >= 0, f"`which` is {self.which}, but must be at least 0.")

    def weights(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
        """The pool, `(size, dims)`."""
        return self._drawn(self.size, device, dtype)

    def _drawn(self, which: int | Tensor, device: torch.device | str, dtype: torch.dtype) -> Tensor:
        return Draw(self.which, -1, which, device=device, dtype=dtype).normal(self.dims)

    def prior(self, draw: Draw, xs: Tensor) -> Tensor:
        if self.fresh:
            return draw.normal(self.dims)
        return self._drawn(draw.integers(self.size), draw.device, draw.dtype)  # only the vectors in use
