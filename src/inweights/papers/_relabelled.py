"""Demonstrations with other labels on SmolLM2: in a random order, flipped, or without a meaning of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.compare import Shots, in_context, shots, zero_shot
from inweights.ledger import NotHereError, Trial
from inweights.models import Model

DEMONSTRATIONS = 8
WORDS = ("past-tense", "plurals")
NOVEL = (" foo", " bar")
"""Labels that say nothing about a review."""


def drawn(trial: Trial, model: Model, name: str, queries: int, draw: int = 0) -> Shots:
    """Demonstrations and queries of a data set; draws of a trial have other ones."""
    try:
        return shots(model, name, DEMONSTRATIONS, queries, 10 * trial.seed + draw)
    except InputError as error:  # the data set is not there
        raise NotHereError(str(error)) from error


def reviews(trial: Trial, model: Model) -> list[Shots]:
    """Reviews of SST-2: several draws, as one set of eight demonstrations differs much from another."""
    return [drawn(trial, model, "sst2", trial.size(8, 12), k) for k in range(trial.size(2, 5))]


def answered(model: Model, shown: Shots) -> Tensor:
    """The first token of the most likely of all labels for each query after the demonstrations, `(queries,)`."""
    logp = in_context(model, shown, torch.arange(len(shown)).unsqueeze(0))[0]
    return shown.labels[logp[:, shown.labels].argmax(-1)]


def hits(model: Model, shown: Shots, wanted: Tensor | None = None) -> Tensor:
    """1 for each query with the right answer, or with the `wanted` one, else 0."""
    return (answered(model, shown) == (shown.right if wanted is None else wanted)).double()


def without(model: Model, shown: Shots) -> Tensor:
    """The same without demonstrations."""
    labels = shown.labels[zero_shot(model, shown)[:, shown.labels].argmax(-1)]
    return (labels == shown.right).double()


def other(shown: Shots, tokens: Tensor) -> Tensor:
    """The other of two labels, for first tokens of labels `(n,)`."""
    return torch.where(tokens == shown.labels[0], shown.labels[1], shown.labels[0])


def flipped(shown: Shots) -> Shots:
    """Two labels exchanged in all demonstrations."""
    by_token = {label[0]: label for label in shown.answered}
    first, second = by_token.values()
    return replace(shown, answered=tuple(second if label == first else first for label in shown.answered))


def shuffled(shown: Shots, random: torch.Generator) -> Shots:
    """The labels of all demonstrations in a random order."""
    order = torch.randperm(len(shown), generator=random).tolist()
    return replace(shown, answered=tuple(shown.answered[i] for i in order))


def renamed(model: Model, shown: Shots, names: Sequence[str]) -> Shots:
    """Two labels replaced by these, in demonstrations and answers."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    ids = [tuple(tokenizer(name, add_special_tokens=False)["input_ids"]) for name in names]
    new = dict(zip(shown.labels.tolist(), ids, strict=True))
    return replace(
        shown,
        answered=tuple(new[label[0]] for label in shown.answered),
        right=torch.tensor([new[token][0] for token in shown.right.tolist()]),
        labels=torch.tensor([i[0] for i in ids]),
    )
