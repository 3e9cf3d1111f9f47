"""Patches of a language model by thought matrices and vectors, and their share of correct answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from inweights.folding import Batch, Card, Examples, Fold, Frame, Rule, is_right, solve_blocks
from inweights.models import Model
from inweights.papers.transmuting._words import Task
from inweights.running import sample
from inweights.theory import Update

RIDGE = 0.3
"""The default penalty of `inweights.folding`; without one, Z of a few tokens has no inverse."""


def _every_token(batch: Batch) -> Tensor:
    """Equal weights for all tokens except the first of a text, which attention uses as a sink."""
    each = batch.real.to(torch.float32)
    each[:, 0] = 0
    return each


# --- the last matrix fitted to each token: Appendix A ----------------------------------------------------------------


class Nothing:
    """A fit that leaves its matrix unchanged."""

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        self.made = Update(y.new_zeros(y.shape[-1], 1), x.new_zeros(x.shape[-1], 1))

    def update(self, W: Tensor | None = None) -> Update:
        return self.made


class Few:
    """`Ridge` for fewer tokens than the matrix is wide: the same `M`, in factors of as many columns as tokens.

    `Yᵀ X (XᵀX + λ)⁻¹ = Yᵀ (XXᵀ + λ)⁻¹ X`: the second inverse has the size of the number of tokens. All tokens have
    equal weight.
    """

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty
        self.x: list[Tensor] = []
        self.y: list[Tensor] = []

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        self.x.append(x[weight > 0])
        self.y.append(y[weight > 0])

    def update(self, W: Tensor | None = None) -> Update:
        X, Y = torch.cat(self.x), torch.cat(self.y)
        damped = X @ X.mT
        damped.diagonal().add_(self.penalty * X.square().sum() / X.shape[1])
        u = torch.linalg.solve(damped, Y).mT
        return Update(u if W is None else W @ u, X.mT)


def _ridge(name: str) -> Few:
    return Few(RIDGE)


RULES = {
    "both": Rule(_every_token, _ridge, _ridge),
    "vector": Rule(_every_token, _ridge, aim="stream"),
    "matrix": Rule(_every_token, lambda name: Nothing(), _ridge),
}
"""Models like SmolLM2 have no bias for a thought vector: the last matrix is fitted to add the missing output of each
token, of which the vector is the mean."""


def fitted(model: Model, examples: Examples, part: str = "both") -> Fold:
    """The patch that replaces the context of examples, with the last matrix fitted to each token."""
    return Fold(solve_blocks(model, examples, RULES[part]), Card(), model)


def randomised(fold: Fold, names: Collection[str], generator: torch.Generator) -> Fold:
    """The same patch with random updates of equal rank and norm in place of those of some matrices."""
    updates = {name: u.random_like(generator) if name in names else u for name, u in fold.updates.items()}
    return Fold(updates, Card(), fold.model)


# --- evaluation ------------------------------------------------------------------------------------------


def right(frame: Frame, before: Sequence[int], asked: Sequence[tuple[str, str]]) -> list[bool]:
    """Which queries the model in its current state answers correctly after these tokens; greedy."""
    answers = sample(
        frame.model.model, before, [frame.asked(q) for q, _ in asked],
        new=6, temperature=0.0, seed=0, ends=frame.ended,
    )  # fmt: skip
    texts = [frame.model.tokenizer.decode(ids, skip_special_tokens=True) for ids in answers]
    return [is_right(text, answer) for text, (_, answer) in zip(texts, asked, strict=True)]


def share(frame: Frame, before: Sequence[int], task: Task) -> float:
    """The share of a task's tests that are answered correctly."""
    result = right(frame, before, task.tests)
    return sum(result) / len(result)


def recovered(columns: Mapping[str, float], name: str = "patched") -> float:
    """The share of the prompt's gain that a patch recovers without it."""
    return (columns[name] - columns["bare"]) / (columns["prompted"] - columns["bare"])
