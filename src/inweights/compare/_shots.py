"""`Shots`: demonstrations and queries of a task as tokens, and the first tokens by which answers are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import factorial
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError, Problems, unknown
from inweights.data import DATA, Source, pairs, source, split_pairs
from inweights.models import Model, adds_bos

COMPARED = ("sst2", "rte", "cb", "past-tense", "plurals", "capitals")
"""The data sets that comparisons are made on."""


@dataclass(frozen=True, eq=False)
class Shots:
    """Demonstrations and queries, as token ids.

    - `before`: what every text begins with: the beginning-of-text token, or nothing.
    - `asked`, `answered`, `ended`: for each demonstration its question, its answer, and what separates it from the
      next one. They are tokenised apart, so that all orders have the same tokens.
    - `queries`: questions without demonstrations; `right` are the first tokens of their answers, `(queries,)`.
    - `labels`: the first tokens of all possible answers, `(labels,)`: those over which `right` is also judged.
    - `several`: the share of labels with more than one token. `left_out`: pairs of the data set that were not used
      because their answer begins as another one does.
    - `texts`: the questions with their answers, demonstrations first, for what needs text.
    """

    before: tuple[int, ...]
    asked: tuple[tuple[int, ...], ...]
    answered: tuple[tuple[int, ...], ...]
    ended: tuple[int, ...]
    queries: tuple[tuple[int, ...], ...]
    right: Tensor
    labels: Tensor
    several: float = 0.0
    left_out: int = 0
    texts: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.asked)

    def prefix(self, order: Sequence[int]) -> tuple[int, ...]:
        """The demonstrations in an order, as the beginning of a prompt."""
        parts = ((*self.asked[i], *self.answered[i], *self.ended) for i in order)
        return (*self.before, *(token for part in parts for token in part))

    def relabelled(self, generator: torch.Generator) -> Shots:
        """The same demonstrations with each other's answers, none with its own: what a wrong teacher shows."""
        n = len(self)
        if len(set(self.answered)) < 2:
            raise InputError("Labels can only be shuffled where the demonstrations have at least two different ones.")
        for _ in range(1000):
            places = torch.randperm(n, generator=generator).tolist()
            moved = tuple(self.answered[i] for i in places)
            if all(a != b for a, b in zip(moved, self.answered, strict=True)):
                return replace(self, answered=moved)
        # With unequal numbers of labels some keep theirs: as few as a rotation of the sorted labels leaves.
        by_label = sorted(range(n), key=lambda i: self.answered[i])
        shift = max(self.answered.count(a) for a in self.answered)
        moved_to = {by_label[k]: self.answered[by_label[(k + shift) % n]] for k in range(n)}
        return replace(self, answered=tuple(moved_to[i] for i in range(n)))


def shots(model: Model, name: str, demonstrations: int, queries: int, seed: int = 0) -> Shots:
    """The demonstrations and queries of a task, drawn by a seed; labels are shown equally often.

    **Raises:** `InputError` if there is no such task, if it has too few rows, or if two labels begin with the same
    token. In tasks without labels (past tense, plurals, capitals) answers that begin alike are left out instead.
    """
    if name not in COMPARED:
        raise unknown("task", name, COMPARED)
    if model.tokenizer is None:
        raise InputError(f"The model {model.name!r} has no tokenizer, which texts of a task need.")
    data = source(name)
    problems = Problems()
    problems.unless(demonstrations >= 1, f"`demonstrations` is {demonstrations}: at least 1 is needed.")
    problems.unless(queries >= 1, f"`queries` is {queries}: at least 1 is needed.")
    problems.stop()
    return tokenised(model.tokenizer, data, pairs(name), demonstrations, queries, seed)


def tokenised(
    tok: Any, data: Source, rows: list[tuple[str, str]], demonstrations: int, queries: int, seed: int
) -> Shots:
    """The shots of a data set with these rows."""
    firsts = {answer: _ids(tok, f" {answer}") for answer in dict.fromkeys(answer for _, answer in rows)}
    begins: dict[int, list[str]] = {}
    for answer, ids in firsts.items():
        begins.setdefault(ids[0], []).append(answer)
    alike = [answers for answers in begins.values() if len(answers) > 1]
    if alike and data.labels:
        names = " and ".join(map(repr, alike[0]))
        raise InputError(f"The labels {names} of {data.name!r} begin with the same token of this model's tokenizer.")
    kept = [(question, answer) for question, answer in rows if len(begins[firsts[answer][0]]) == 1]
    wanted = demonstrations + queries
    if wanted > len(kept):
        raise InputError(
            f"The task {data.name!r} has {len(kept)} usable rows, but {demonstrations} demonstrations and {queries} "
            f"queries are {wanted}: ask for fewer."
        )
    shown, rest = split_pairs(kept, demonstrations, labels=data.labels, seed=seed)
    used = [*shown, *rest[:queries]]
    labels = list(dict.fromkeys(answer for _, answer in (kept if data.labels else used)))
    return Shots(
        before=(tok.bos_token_id,) if adds_bos(tok) else (),
        asked=tuple(_ids(tok, data.query(question)) for question, _ in shown),
        answered=tuple(firsts[answer] for _, answer in shown),
        ended=_end(tok, "\n\n", data.asks),
        queries=tuple(_ids(tok, data.query(question)) for question, _ in rest[:queries]),
        right=torch.tensor([firsts[answer][0] for _, answer in rest[:queries]]),
        labels=torch.tensor([firsts[answer][0] for answer in labels]),
        several=sum(len(firsts[answer]) > 1 for answer in labels) / len(labels),
        left_out=len(rows) - len(kept),
        texts=tuple((data.query(question), answer) for question, answer in used),
    )


def _ids(tok: Any, text: str) -> tuple[int, ...]:
    return tuple(tok(text, add_special_tokens=False)["input_ids"])


def _end(tok: Any, end: str, following: str) -> tuple[int, ...]:
    """The tokens of `end` where `following` comes next: some tokenisers join line ends only at the end of a text."""
    both, next_ = _ids(tok, end + following), _ids(tok, following)
    return both[: -len(next_)] if both[-len(next_) :] == next_ else _ids(tok, end)


def orders(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Distinct orders of `n` demonstrations, `(min(count, n!), n)`; the first is the order in which they were drawn."""
    count = min(count, factorial(n)) if n < 20 else count
    chosen: dict[tuple[int, ...], None] = {tuple(range(n)): None}
    while len(chosen) < count:
        chosen.setdefault(tuple(torch.randperm(n, generator=generator).tolist()))
    return torch.tensor(list(chosen))


def known_tasks() -> list[tuple[str, str]]:
    """The tasks with what they are about."""
    return [(name, DATA[name].description) for name in COMPARED]
