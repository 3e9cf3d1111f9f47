"""`Examples`: queries with the prompted model's answers, as padded batches of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights.folding._frame import Frame


@dataclass(frozen=True)
class Batch:
    """Some examples, padded on the right: under a causal mask no token sees what is behind it.

    - `ids`: `(b, T)`, the query and its answer less the last token, bare: no context, positions from 0.
    - `real`: `(b, T)`, false on padding.
    - `answers`: `(b, T)`, true where the next token is one of the answer's.
    """

    ids: Tensor
    real: Tensor
    answers: Tensor


@dataclass(frozen=True)
class Examples:
    """Queries, and what the model answers to them with the context in place."""

    frame: Frame
    queries: tuple[str, ...]
    asked: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def tokens(self) -> int:
        """How many answer tokens there are."""
        return sum(map(len, self.answers))

    def batch(self, chosen: list[int], width: int | None = None) -> Batch:
        """The chosen examples as a batch, padded to the longest of them, or to `width`."""
        before = self.frame.before
        rows = [(*before, *self.asked[i], *self.answers[i][:-1]) for i in chosen]
        T = width or max(map(len, rows))
        ids = torch.zeros(len(rows), T, dtype=torch.long)
        real, answers = torch.zeros_like(ids, dtype=torch.bool), torch.zeros_like(ids, dtype=torch.bool)
        for r, (i, row) in enumerate(zip(chosen, rows, strict=True)):
            ids[r, : len(row)] = torch.tensor(row)
            real[r, : len(row)] = True
            answers[r, len(before) + len(self.asked[i]) - 1 : len(row)] = True
        device = self.frame.model.device
        return Batch(ids.to(device), real.to(device), answers.to(device))

    def batches(self, tokens: int = 1024) -> list[tuple[list[int], Batch]]:
        """All examples in batches of about so many tokens, alike in length; with each, which examples it holds."""
        length = {i: len(self.asked[i]) + len(self.answers[i]) for i in range(len(self))}
        order = sorted(length, key=lambda i: (length[i], i))
        results: list[list[int]] = []
        for i in order:
            if results and length[i] * (len(results[-1]) + 1) <= tokens:
                results[-1].append(i)
            else:
                results.append([i])
        return [(chosen, self.batch(chosen)) for chosen in results]

    def answer_rows(self) -> tuple[Tensor, Tensor]:
        """For every example the rows whose next token is an answer's, and a weight that is 0 on padding: `(n, R)`."""
        most = max(map(len, self.answers))
        index = torch.zeros(len(self), most, dtype=torch.long)
        weights = torch.zeros(len(self), most)
        for i, (asked, answers) in enumerate(zip(self.asked, self.answers, strict=True)):
            first = len(self.frame.before) + len(asked) - 1
            index[i, : len(answers)] = torch.arange(first, first + len(answers))
            weights[i, : len(answers)] = 1.0
        device = self.frame.model.device
        return index.to(device), weights.to(device)
