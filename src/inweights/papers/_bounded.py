"""Random transformers with bounded weights, as in the stability theorem of Li et al. 2023, and their stability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.ledger import Trial


@dataclass(frozen=True)
class Bounded:
    """`X ← ReLU(softmax(X W Xᵀ) X V Mᵀ)` in each layer, without a mask; the output is the last token of the last one.

    - `compare`, `values`, `mlp`: W, V and M, each `(layers, batch, width, width)`: a transformer for each prompt.
    - `temperature`: divides the scores before the softmax.
    - `branch`: None as in the theorem, without a skip connection; else the layer is `X + branch · (…)`.
    - `norm`: whether a layer reads its input through LayerNorm, divided by √width, so that tokens have norm 1.
    """

    compare: Tensor
    values: Tensor
    mlp: Tensor
    temperature: float = 1.0
    branch: float | None = None
    norm: bool = False

    def __call__(self, tokens: Tensor) -> Tensor:
        """`(batch, variants, tokens, width)` → `(batch, variants, width)`."""
        X = tokens
        for compare, values, mlp in zip(self.compare, self.values, self.mlp, strict=True):
            seen = F.layer_norm(X, X.shape[-1:]) / X.shape[-1] ** 0.5 if self.norm else X
            scores = seen @ compare.unsqueeze(1) @ seen.mT / self.temperature
            added = (scores.softmax(-1) @ seen @ (values @ mlp.mT).unsqueeze(1)).relu()
            X = added if self.branch is None else X + self.branch * added
        return X[..., -1, :]

    def sharper(self, factor: float) -> Bounded:
        """The same with W times a factor."""
        return replace(self, compare=factor * self.compare)


def orthogonal(random: torch.Generator, *shape: int) -> Tensor:
    """Random orthogonal matrices, float64: all singular values are 1, the largest that the theorem allows for V and
    M."""
    return torch.linalg.qr(torch.randn(*shape, generator=random, dtype=torch.float64))[0]


def bounded(random: torch.Generator, batch: int, layers: int, width: int, gamma: float) -> Bounded:
    """Random transformers with ‖W‖ = Γ/2 and ‖V‖ = ‖M‖ = 1."""
    W, V, M = (orthogonal(random, layers, batch, width, width) for _ in range(3))
    return Bounded(gamma / 2 * W, V, M)


def unit_tokens(random: torch.Generator, batch: int, examples: int, width: int) -> Tensor:
    """Prompts of m − 1 examples and a query in random directions, of norm 1: `(batch, 2 m − 1, width)`, where the
    tokens 2j and 2j + 1 are the input and the label of example j."""
    return F.normalize(torch.randn(batch, 2 * examples - 1, width, generator=random, dtype=torch.float64), dim=-1)


def opposite(tokens: Tensor, examples: Sequence[int]) -> Tensor:
    """For each of these examples a variant of the prompts in which both its tokens are replaced by their opposites, the
    farthest points of the unit ball: `(batch, tokens, width)` → `(batch, variants, tokens, width)`."""
    signs = torch.ones(len(examples), tokens.shape[1], 1, dtype=tokens.dtype)
    for variant, j in enumerate(examples):
        signs[variant, 2 * j : 2 * j + 2] = -1
    return tokens.unsqueeze(1) * signs


def change(model: Bounded, tokens: Tensor, others: Tensor) -> Tensor:
    """How far the output moves from a prompt to each of its variants: `(batch, variants)`."""
    return (model(others) - model(tokens.unsqueeze(1))).norm(dim=-1)


def constant(model: Bounded, tokens: Tensor, *, relative: bool = True) -> float:
    """The measured constant K of stability: m times the change by the most influential example, averaged over prompts.

    With `relative`, changes are divided by the norm of the output: where the scale of the output itself is varied."""
    m = (tokens.shape[1] + 1) // 2
    moved = change(model, tokens, opposite(tokens, range(m - 1))).amax(1)
    size = model(tokens.unsqueeze(1))[:, 0].norm(dim=-1) if relative else torch.ones_like(moved)
    return m * (moved / size).mean().item()


def slope(lengths: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the logarithm of values against that of lengths, by least squares."""
    x, y = (torch.tensor(list(v), dtype=torch.float64).log() for v in (lengths, values))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def count(trial: Trial) -> int:
    """The number of random transformers in a trial."""
    return trial.size(16, 64)
