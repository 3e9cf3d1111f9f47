"""Linear regression: `y = ⟨w, x⟩`, a new `w` for every prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Task


def dot(xs: Tensor, w: Tensor) -> Tensor:
    """`⟨w, x⟩` for every point: `(batch, points, dims)`, `(batch, dims)` → `(batch, points)`."""
    return (xs @ w.unsqueeze(-1)).squeeze(-1)


@TASKS("linear")
@dataclass(frozen=True, kw_only=True)
class Linear(Task):
    """`w, x ~ N(0, I)`, `y = ⟨w, x⟩ + noise`: Garg et al. 2022, and most papers since."""

    noise: float = 0.0

    linear: ClassVar[bool] = True

    def check(self, problems: Problems) -> None:
        problems.unless(self.noise >= 0, f"`noise` is {self.noise}, but must be at least 0.")

    @property
    def power(self) -> float:
        return float(self.dims) if self.loss == "squared" else super().power

    def prior(self, draw: Draw, xs: Tensor) -> Tensor:
        """Weights for prompts with these inputs, `(batch, dims)`."""
        return draw.normal(self.dims)

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = self.prior(draw, xs)
        clean = dot(xs, w)
        noisy = clean + self.noise * draw.normal(xs.shape[1]) if self.noise else clean
        return noisy, {"w": w, "clean": clean}
