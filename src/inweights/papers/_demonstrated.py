"""Tasks by demonstrations on SmolLM2, for the papers that compare in-context learning with gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.compare import InContext, Shots, correctness, in_context, orders, shots, zero_shot
from inweights.ledger import NotHereError, Trial, kept
from inweights.models import Model

NEEDS = ("smollm2", "past-tense", "plurals", "sst2")
LEAST = 0.2
"""The least gain in accuracy by demonstrations for a comparison to be meaningful."""


def task(trial: Trial) -> str:
    """The task of a trial: words in a quick run, reviews too in a full one."""
    names = trial.size(("past-tense", "plurals"), ("past-tense", "plurals", "sst2"))
    return names[trial.seed % len(names)]


@cache
def given(trial: Trial, demonstrations: int, queries: int) -> tuple[Model, Shots]:
    """SmolLM2, and the demonstrations and queries of a trial."""
    model = trial.language_model("float32")
    try:
        return model, shots(model, task(trial), demonstrations, queries, trial.seed)
    except InputError as error:  # the data set is not there
        raise NotHereError(str(error)) from error


def drawn(trial: Trial, demonstrations: int, count: int) -> Tensor:
    """The orders of a trial, `(count, demonstrations)`."""
    return orders(demonstrations, count, trial.generator())


def able(trial: Trial, model: Model, shown: Shots, icl: Tensor) -> None:
    """Stops the trial if the model cannot do its task in context; `icl` are log-probabilities `(..., queries, V)`."""
    with_, without = (mean(correctness(p, shown)["accuracy"]) for p in (icl, zero_shot(model, shown)))
    trial.require(
        with_ - without >= LEAST,
        f"SmolLM2 gains too little by demonstrations of {task(trial)}: {with_:.0%} right with them, {without:.0%} not",
    )


def read_in_context(trial: Trial, model: Model, shown: Shots, count: int) -> InContext:
    """In-context learning in the orders of a trial, read from the cache if it was measured before."""
    chosen = drawn(trial, len(shown), count)
    name = f"in-context-{task(trial)}-{len(shown)}-{len(shown.queries)}-{count}-{trial.seed}"
    logp = kept(name, lambda: {"logp": in_context(model, shown, chosen)})["logp"]
    able(trial, model, shown, logp)
    return InContext.of(logp)


def stored(name: str, trial: Trial, measure: Callable[[], dict[str, list[float]]]) -> dict[str, list[float]]:
    """Numbers that several claims have in common, measured once."""

    @wraps(measure)  # so that the code that it reaches is part of the key
    def tensors() -> dict[str, Tensor]:
        return {key: torch.tensor(values, dtype=torch.float64) for key, values in measure().items()}

    size = "quick" if trial.quick else "full"
    result = kept(f"{name}-{task(trial)}-{trial.seed}-{size}", tensors)
    return {key: values.tolist() for key, values in result.items()}


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
