"""`Examples`: queries with the prompted model's answers, as padded batches of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from inweights.folding._frame import Frame


@dataclass(frozen=True)
class Batch:
    """Some examples, padded on the right: under a causal mask no token depends on the padding.

    - `ids`: `(b, T)`, the query and its answer less the last token, bare: no context, positions from 0.
    - `real`: `(b, T)`, false on padding.
    - `answers`: `(b, T)`, true where the next token is one of the answer's.
    """

    ids: Tensor
    real: Tensor
    answers: Tensor


@dataclass(frozen=True)
class Examples:
    """Queries, and the prompted model's answers to them.

    - `asked`, `answers`: tokens of the queries and of the answers.
    - `taught`: all tokens that the teacher of each example reads before the answer, where that is not the context and
      the query: a part of the context with the query, or the query alone if its answer shall not change. `None` for
      the whole context; empty if that holds for all.
    - `sure`: whether the answer is known to be right independently of the teacher, because the question was made
      from it; empty if none is.
    - `times`: how often each is seen before all have been seen; empty for once.
    - `weights`: how much a token of each answer counts in the divergence; empty for 1.
    """

    frame: Frame
    queries: tuple[str, ...]
    asked: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    taught: tuple[tuple[int, ...] | None, ...] = ()
    sure: tuple[bool, ...] = ()
    times: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def prompt_of(self, i: int) -> tuple[int, ...] | None:
        """The tokens that an example's teacher reads before the answer; `None` for the whole context and the query."""
        return self.taught[i] if self.taught else None

    def is_sure(self, i: int) -> bool:
        return bool(self.sure) and self.sure[i]

    def times_of(self, i: int) -> int:
        return self.times[i] if self.times else 1

    def weight_of(self, i: int) -> float:
        return self.weights[i] if self.weights else 1.0

    def some(self, chosen: Sequence[int]) -> Examples:
        """The chosen examples."""
        return Examples(
            self.frame,
            tuple(self.queries[i] for i in chosen),
            tuple(self.asked[i] for i in chosen),
            tuple(self.answers[i] for i in chosen),
            tuple(self.prompt_of(i) for i in chosen),
            tuple(self.is_sure(i) for i in chosen),
            tuple(self.times_of(i) for i in chosen),
            tuple(self.weight_of(i) for i in chosen),
        )

    def repeated(self, times: int) -> Examples:
        """The same examples, each seen so often before all of a sum have been seen."""
        return replace(self, times=(times,) * len(self))

    def weighted(self, weight: float) -> Examples:
        """The same examples, each token of whose answers counts so much."""
        return replace(self, weights=(weight,) * len(self))

    def shortened(self, tokens: int) -> Examples:
        """The same examples with the first tokens of each answer."""
        return replace(self, answers=tuple(answer[:tokens] for answer in self.answers))

    def __add__(self, other: Examples) -> Examples:
        """Both, with the frame of the first."""
        taught = [e.prompt_of(i) for e in (self, other) for i in range(len(e))]
        sure = [e.is_sure(i) for e in (self, other) for i in range(len(e))]
        times = [e.times_of(i) for e in (self, other) for i in range(len(e))]
        weights = [e.weight_of(i) for e in (self, other) for i in range(len(e))]
        return Examples(
            self.frame, self.queries + other.queries, self.asked + other.asked, self.answers + other.answers,
            tuple(taught), tuple(sure), tuple(times), tuple(weights),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def tokens(self) -> int:
        """How many answer tokens there are."""
        return sum(map(len, self.answers))

    def batch(self, chosen: list[int], width: int | None = None, *, taught: bool = False) -> Batch:
        """The chosen examples as a batch, padded to the longest of them, or to `width`; as their teachers read
        them, if `taught`."""
        before = self.frame.before
        ahead = [(self.prompt_of(i) if taught else None) or (*before, *self.asked[i]) for i in chosen]
        rows = [(*prompt, *self.answers[i][:-1]) for i, prompt in zip(chosen, ahead, strict=True)]
        T = width or max(map(len, rows))
        ids = torch.zeros(len(rows), T, dtype=torch.long)
        real, answers = torch.zeros_like(ids, dtype=torch.bool), torch.zeros_like(ids, dtype=torch.bool)
        for r, (i, row) in enumerate(zip(chosen, rows, strict=True)):
            ids[r, : len(row)] = torch.tensor(row)
            real[r, : len(row)] = True
            answers[r, len(row) - len(self.answers[i]) : len(row)] = True
        device = self.frame.model.device
        return Batch(ids.to(device), real.to(device), answers.to(device))

    def batches(
        self, tokens: int = 1024, some: list[int] | None = None, *, taught: bool = False
    ) -> list[tuple[list[int], Batch]]:
        """All examples, or some, in batches of about so many tokens, alike in length; with each, which it holds."""
        length = {
            i: len((self.prompt_of(i) if taught else None) or self.asked[i]) + len(self.answers[i])
            for i in (range(len(self)) if some is None else some)
        }
        order = sorted(length, key=lambda i: (length[i], i))
        results: list[list[int]] = []
        for i in order:
            if results and length[i] * (len(results[-1]) + 1) <= tokens:
                results[-1].append(i)
            else:
                results.append([i])
        return [(chosen, self.batch(chosen, taught=taught)) for chosen in results]

    def answer_rows(self) -> tuple[Tensor, Tensor]:
        """For every example the rows whose next token is an answer's, and their weight, 0 on padding: `(n, R)`."""
        most = max(map(len, self.answers))
        index = torch.zeros(len(self), most, dtype=torch.long)
        weights = torch.zeros(len(self), most)
        for i, (asked, answers) in enumerate(zip(self.asked, self.answers, strict=True)):
            first = len(self.frame.before) + len(asked) - 1
            index[i, : len(answers)] = torch.arange(first, first + len(answers))
            weights[i, : len(answers)] = self.weight_of(i)
        device = self.frame.model.device
        return index.to(device), weights.to(device)

    def answer_tokens(self) -> tuple[Tensor, Tensor]:
        """The tokens of every answer, padded with 0, and 1 where they are sure: `(n, R)`, as `answer_rows`."""
        most = max(map(len, self.answers))
        tokens, sure = torch.zeros(len(self), most, dtype=torch.long), torch.zeros(len(self), most)
        for i, answer in enumerate(self.answers):
            tokens[i, : len(answer)] = torch.tensor(answer)
            sure[i, : len(answer)] = float(self.is_sure(i))
        device = self.frame.model.device
        return tokens.to(device), sure.to(device)
