"""Decision trees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task


@TASKS("tree")
@dataclass(frozen=True, kw_only=True)
class Tree(Task):
    """A full tree that tests the sign of a random coordinate at each node; leaves are N(0, 1): Garg et al. 2022.

    Node k has the children 2k + 1, where the coordinate is not positive, and 2k + 2, where it is.
    """

    depth: int = 4

    def check(self, problems: Problems) -> None:
        problems.unless(1 <= self.depth <= 20, f"`depth` is {self.depth}, but must be from 1 to 20.")

    @property
    def power(self) -> float:
        return 1.0

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        inner = 2**self.depth - 1
        tests, leaves = draw.integers(self.dims, inner), draw.normal(inner + 1)
        node = torch.zeros(xs.shape[:2], dtype=torch.int64, device=xs.device)
        for _ in range(self.depth):
            tested = xs.gather(2, tests.gather(1, node).unsqueeze(2)).squeeze(2)
            node = 2 * node + 1 + (tested > 0)
        ys = leaves.gather(1, node - inner)
        return ys, {"tests": tests, "leaves": leaves, "clean": ys}
