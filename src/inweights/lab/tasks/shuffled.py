"""Labels of unrelated functions: a control from which nothing can be learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS
from inweights.lab.tasks.uniform import Uniform


@TASKS("shuffled")
@dataclass(frozen=True, kw_only=True)
class Shuffled(Uniform):
    """Like `uniform`, but every label has its own function, as if labels were shuffled among prompts.

    Inputs and labels keep their distributions, but examples carry no information about the query's label. For controls:
    what a model learns here, it learns from the inputs alone.
    """

    linear: ClassVar[bool] = False

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(*xs.shape[1:])
        clean = (xs * w).sum(-1)
        noisy = clean + self.noise * draw.normal(xs.shape[1]) if self.noise else clean
        return noisy, {"w": w, "clean": clean}
