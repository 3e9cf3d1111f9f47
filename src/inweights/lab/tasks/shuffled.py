"""Labels of other functions: what nothing can be learned from."""

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
    """As `uniform`, but every label is of a function of its own, as if labels were shuffled among prompts.

    Inputs and labels keep their laws; examples say nothing about the query. For controls: whoever learns something
    here, learned it from the inputs alone.
    """

    linear: ClassVar[bool] = False

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(*xs.shape[1:])
        clean = (xs * w).sum(-1)
        noisy = clean + self.noise * draw.normal(xs.shape[1]) if self.noise else clean
        return noisy, {"w": w, "clean": clean}
