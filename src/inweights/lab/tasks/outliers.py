"""Linear regression with outliers, which carry no information about the function: Park et al. 2024."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.tasks._task import TASKS, Sample, Task, curtail
from inweights.lab.tasks.linear import dot


@dataclass(frozen=True, kw_only=True)
class Outliers(Task):
    """`y = ⟨w, x⟩`, but each point is replaced by an outlier with the probability `share`; `outlier` marks these.

    The paper leaves the replaced points out of its losses. The power is that of the others.
    """

    share: float = 0.5

    pointwise: ClassVar[bool] = False

    def check(self, problems: Problems) -> None:
        problems.unless(0 <= self.share < 1, f"`share` is {self.share}, but must be from 0 to below 1.")

    @property
    def power(self) -> float:
        return float(self.dims)

    def replacements(self, draw: Draw, w: Tensor, points: int) -> tuple[Tensor, Tensor]:
        """Inputs `(batch, points, dims)` and labels `(batch, points)` of outliers."""
        raise NotImplementedError

    def sample(self, draw: Draw, points: int, *, active: Tensor | int | None = None) -> Sample:
        xs = curtail(self.inputs(draw, points), active)
        w = draw.normal(self.dims)
        outlier = draw.bernoulli(self.share, points) > 0
        others, labels = self.replacements(draw, w, points)
        xs = torch.where(outlier.unsqueeze(2), curtail(others, active), xs)
        ys = torch.where(outlier, labels, dot(xs, w))
        return Sample(xs, ys, {"w": w, "outlier": outlier, "clean": ys}, scored=~outlier)


@TASKS("orthogonal-outliers")
@dataclass(frozen=True, kw_only=True)
class OrthogonalOutliers(Outliers):
    """Outliers lie in a plane that is orthogonal to `w`, one plane for each prompt, at a distance of √dims.

    The label of an outlier is the first coordinate of another such vector; in the paper it is the whole vector. In its
    code the plane is orthogonal to another, newly drawn `w`, and the outliers of a prompt are all the same.
    """

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.dims >= 3, f"`dims` is {self.dims}, but must be at least 3.")

    def replacements(self, draw: Draw, w: Tensor, points: int) -> tuple[Tensor, Tensor]:
        across = _unit(w)
        u = _unit(_without(draw.normal(self.dims), across))
        v = _unit(_without(_without(draw.normal(self.dims), across), u))
        angles = draw.uniform(points, 2, high=2 * math.pi).unsqueeze(3)
        drawn = math.sqrt(self.dims) * (angles.cos() * u[:, None, None] + angles.sin() * v[:, None, None])
        return drawn[:, :, 0], drawn[:, :, 1, 0]


@TASKS("many-outliers")
@dataclass(frozen=True, kw_only=True)
class ManyOutliers(Outliers):
    """Nearly all points are outliers, and these are all the same: ones, with the label 1."""

    share: float = 0.9

    def replacements(self, draw: Draw, w: Tensor, points: int) -> tuple[Tensor, Tensor]:
        ones = torch.ones_like(w[:, :1]).expand(-1, points)
        return ones.unsqueeze(2).expand(-1, -1, self.dims), ones


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=1, keepdim=True)


def _without(vectors: Tensor, unit: Tensor) -> Tensor:
    """The component of `(batch, dims)` orthogonal to unit vectors."""
    return vectors - (vectors * unit).sum(1, keepdim=True) * unit
