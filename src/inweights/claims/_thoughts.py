"""Patches of a language model by thought matrices and vectors, and the share of right answers that they give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from inweights.claims._words import Task
from inweights.fold import Fold, Frame, answered
from inweights.fold._card import Card
from inweights.fold._evaluate import _right
from inweights.fold._examples import Batch
from inweights.fold._layers import Rule, solve_blocks
from inweights.fold._ridge import Ridge
from inweights.fold._sample import sample
from inweights.fold._simple import thought_vector
from inweights.models import Model
from inweights.theory import Update

MEAN = "mean vector"
PARTS = ("vector", "matrix", MEAN)
RIDGE = 0.3
"""The penalty that `inweights.fold` takes unless told otherwise; Z of a few tokens has no inverse without one."""


class Nothing:
    """A fit that leaves its matrix as it is."""

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        self.made = Update(y.new_zeros(y.shape[-1], 1), x.new_zeros(x.shape[-1], 1))

    def update(self, W: Tensor | None = None) -> Update:
        return self.made


def _every_token(batch: Batch) -> Tensor:
    """Every token counts the same, but for the first of a text, which attention uses as a sink."""
    each = batch.real.to(torch.float32)
    each[:, 0] = 0
    return each


def _ridge(name: str) -> Ridge:
    return Ridge(RIDGE, name=name)


RULES = {
    "both": Rule(_every_token, _ridge, _ridge),
    "vector": Rule(_every_token, _ridge, aim="stream"),
    "matrix": Rule(_every_token, lambda name: Nothing(), _ridge),
}
"""Models like SmolLM2 have no bias to hold a thought vector: the last matrix is fitted to add what each token lacks, of
which the vector is the mean. `MEAN` is that vector itself, added by an update of rank one."""


def patched(model: Model, task: Task, part: str = "both") -> Fold:
    """The patch that stands for the task's context, from the prompted model's own answers to its calibration."""
    frame = Frame.of(model, task.context, chat=False)
    examples = answered(frame, task.calibration, new=8, temperature=0.0)
    updates = thought_vector(model, examples) if part == MEAN else solve_blocks(model, examples, RULES[part])
    return Fold(updates, Card(), model)


def randomised(fold: Fold, names: Collection[str], generator: torch.Generator) -> Fold:
    """The same patch with random updates of equal rank and norm in place of those of some matrices."""
    updates = {name: u.random_like(generator) if name in names else u for name, u in fold.updates.items()}
    return Fold(updates, Card(), fold.model)


def share(frame: Frame, before: Sequence[int], task: Task) -> float:
    """The share of tests that the model, as it is by now, answers rightly after these tokens; greedy."""
    said = sample(
        frame.model, before, [frame.asked(q) for q, _ in task.tests],
        new=6, temperature=0.0, seed=0, ends=frame.ended,
    )  # fmt: skip
    texts = [frame.model.tokenizer.decode(ids, skip_special_tokens=True) for ids in said]
    return sum(_right(text, answer) for text, (_, answer) in zip(texts, task.tests, strict=True)) / len(texts)


def recovered(columns: Mapping[str, float], name: str = "patched") -> float:
    """How much of what the prompt gains a patch gains without it."""
    return (columns[name] - columns["bare"]) / (columns["prompted"] - columns["bare"])
