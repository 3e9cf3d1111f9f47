"""Gradient descent on the examples before each point, in three forms: plain, GD++ and preconditioned.

All start from `w = 0` and minimise `1/(2N) Σ (⟨w, x⟩ − y)²` over the N examples before, so that a step is
`w ← w + A (b − S w)` with `S = Σ x xᵀ / N` and `b = Σ x y / N`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import InputError, Problems
from inweights.lab.predictors._classical import LinearPredictor, check_width
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import counts, grams, moments, times


def _means(xs: Tensor, ys: Tensor) -> tuple[Tensor, Tensor]:
    """`S`, `(batch, points, dims, dims)`, and `b`, `(batch, points, dims)`."""
    n = counts(xs).unsqueeze(-1)
    return grams(xs) / n.unsqueeze(-1), moments(xs, ys) / n


@PREDICTORS("gd")
@dataclass(frozen=True, kw_only=True)
class GD(LinearPredictor):
    """`steps` steps of gradient descent; a linear attention layer can implement one (von Oswald et al. 2023)."""

    rate: float = 0.5
    steps: int = 1

    def check(self, problems: Problems) -> None:
        problems.unless(self.rate > 0, f"`rate` is {self.rate}, but must be above 0.")
        problems.unless(self.steps >= 1, f"`steps` is {self.steps}, but must be at least 1.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        S, b = _means(xs, ys)
        w = self.rate * b
        for _ in range(self.steps - 1):
            w = w + self.rate * (b - times(S, w))
        return w


@PREDICTORS("gd++")
@dataclass(frozen=True, kw_only=True)
class GDPlusPlus(LinearPredictor):
    """GD++ (von Oswald et al. 2023, appendix A.10): with every step the inputs change as well.

    A layer updates labels by a gradient step with rate `η`, and at the same time all inputs, including the query, by
    `x ← (I − γ Σ x xᵀ) x`. After some layers the inputs are `T x` with one matrix `T` for each prefix; so a step is
    preconditioned by `T²`, and `T ← (I − γ T (Σ x xᵀ) T) T`, which shrinks directions of high curvature. The sum is not
    divided by N: a `γ` fits one N only. `rates` and `curvatures` are the `η` and `γ` of each layer.
    """

    rates: tuple[float, ...]
    curvatures: tuple[float, ...]

    def check(self, problems: Problems) -> None:
        problems.unless(
            len(self.rates) == len(self.curvatures) > 0,
            f"`rates` has {len(self.rates)} numbers and `curvatures` {len(self.curvatures)}, but both need one for "
            "each step.",
        )

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        S, b = _means(xs, ys)
        n = counts(xs)[:, None, None]
        T = torch.eye(xs.shape[2], dtype=xs.dtype, device=xs.device).expand_as(S)
        w = torch.zeros_like(b)
        for rate, curvature in zip(self.rates, self.curvatures, strict=True):
            w = w + rate * times(T, times(T, b - times(S, w)))
            T = T - curvature * n * (T @ S @ T @ T)
        return w


@PREDICTORS("preconditioned-gd")
@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedGD(LinearPredictor):
    """`w ← w − A ∇` with a matrix `A` for each step: what linear transformers learn (Ahn et al. 2023).

    `matrices` is `(dims, dims)` for one step or `(steps, dims, dims)`. `whitening` creates `A = a Σ⁻¹`, `one_step` the
    best matrix for a single step.
    """

    matrices: Tensor

    def check(self, problems: Problems) -> None:
        shape = tuple(self.matrices.shape)
        problems.unless(
            len(shape) in (2, 3) and shape[-1] == shape[-2],
            f"`matrices` has shape {shape}, but must be (dims, dims) or (steps, dims, dims).",
        )

    @classmethod
    def whitening(cls, covariance: Tensor, rates: tuple[float, ...]) -> PreconditionedGD:
        """`A = a Σ⁻¹`, an `a` for each step (their theorem 3)."""
        if not rates:
            raise InputError("`rates` is empty, but must have a number for each step.")
        inverse = torch.linalg.inv(covariance)
        return cls(matrices=torch.stack([rate * inverse for rate in rates]))

    @classmethod
    def one_step(cls, covariance: Tensor, examples: int) -> PreconditionedGD:
        """The best matrix for one step on `examples` examples, if `x ~ N(0, Σ)` and `w ~ N(0, I)` (their theorem 1)."""
        values, vectors = torch.linalg.eigh(covariance)
        scale = ((examples + 1) * values + values.sum()) / examples
        return cls(matrices=vectors / scale @ vectors.mT)

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        check_width("matrices", self.matrices.shape[-1], xs)
        S, b = _means(xs, ys)
        w = torch.zeros_like(b)
        for A in self.matrices.to(xs).reshape(-1, *self.matrices.shape[-2:]):
            w = w + (b - times(S, w)) @ A.mT
        return w
