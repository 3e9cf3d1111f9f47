"""The methods of folding: each takes a model and examples, and returns an update for each matrix."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from inweights._errors import InputError, unknown
from inweights.folding._closed import closed_form
from inweights.folding._examples import Examples
from inweights.folding._lora import Lora, linear_modules
from inweights.folding._match import fit
from inweights.folding._simple import mean_rank_one, thought_vector
from inweights.folding._steps import DISTILLED, MATCHED, Steps
from inweights.folding._teacher import prompted
from inweights.folding._work import State
from inweights.models import Model
from inweights.theory import Update

METHODS = {
    "match": "about a hundred gradient steps that match the answers and the output of every block",
    "closed": "closed form, layer by layer: ridge regressions, no gradient",
    "polish": "the closed form, then the steps of `match` from there",
    "distil": "context distillation, 400 gradient steps on the answers alone: the rival",
    "vector": "one mean vector for each block (steering), as a rank-one update: the weakest rival",
    "mean": "the mean of the theorem's exact rank-one updates",
}
RANK = {"match": 16, "distil": 16, "closed": 64, "polish": 64, "vector": 1, "mean": 64}


@dataclass(frozen=True)
class Solved:
    """The updates, by the name of the parameter, and the seconds from the sampled answers to them.

    `seconds_steps` is the part of them that gradient steps took.
    """

    updates: dict[str, Update]
    seconds: float
    seconds_steps: float = 0.0


def working(model: Model) -> Model:
    """A copy for sampling and gradient steps: bfloat16 where the machine multiplies it faster."""
    native = (
        getattr(torch.cpu, "_is_avx512_bf16_supported", bool)() or getattr(torch.cpu, "_is_amx_tile_supported", bool)()
    )
    if model.dtype != torch.float32 or not (model.device.type == "cuda" or native):
        return model
    low = Model(copy.deepcopy(model.model).to(torch.bfloat16), model.tokenizer, model.name, model.path)
    low.model.requires_grad_(False)
    low.__dict__["anatomy"] = model.anatomy  # the same blocks: no need to trace them again
    return low


def steps_for(model: Model, examples: int) -> Steps:
    """The number of steps of `match` for so many examples: about three and a half passes over them."""
    base = MATCHED["cuda" if model.device.type == "cuda" else "cpu"]
    return replace(base, count=max(48, min(base.count, round(3.5 * examples / base.batch))))


def require_rank(model: Model, rank: int | None) -> None:
    """Refuses a rank that no matrix of the model's blocks can have."""
    most = max(min(model.model.get_parameter(f"{name}.weight").shape) for name in linear_modules(model))
    if rank is not None and not 1 <= rank <= most:
        raise InputError(f"`rank` is {rank}, but must be from 1 to {most}: no weight matrix to fold into has a higher.")


def solve_updates(
    model: Model,
    examples: Examples,
    method: str = "match",
    *,
    rank: int | None = None,
    steps: Steps | None = None,
    seed: int = 0,
    low: Model | None = None,
    start: Mapping[str, Update] | None = None,
    state: State | None = None,
    after: Callable[[int, int], None] = lambda done, total: None,
) -> Solved:
    """Folds the context of the examples.

    `low` is a working copy, if there is one already; `start` is what gradient steps begin with; they
    save their `state`, and resume from it.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    rank = RANK[method] if rank is None else rank
    if rank < 1:
        raise InputError(f"`rank` is {rank}, but must be at least 1.")
    if len({p.device for p in model.model.parameters()}) > 1:
        raise InputError("The model is spread over several devices, but folding needs it on one: use --device cuda.")
    low = low or working(model)
    wait(model)
    clock = time.perf_counter()
    results: dict[str, Update] = dict(start or {})
    stepping = 0.0
    if method in ("closed", "polish"):
        results = closed_form(model, examples, rank=rank, after=after)
    elif method == "vector":
        results = thought_vector(model, examples)
    elif method == "mean":
        results = mean_rank_one(model, examples, rank=rank)
    if method in ("match", "polish", "distil"):
        how = steps or (DISTILLED if method == "distil" else steps_for(model, len(examples)))
        if method == "polish" and steps is None:
            how = replace(how, rate=how.rate / 4)  # a good start is lost at the rate that a start from nothing needs
        teacher = prompted(low, examples, blocks=how.match > 0, batch_tokens=batch_tokens(low))
        lora = Lora(low, rank, seed, results, merged=how.graph)
        wait(model)
        begun = time.perf_counter()
        fit(low, examples, teacher, lora, how, seed=seed, state=state, after=lambda k: after(k, how.count))
        kept = 1.0 if results else how.keep
        results = {name: update * kept for name, update in lora.updates().items()}
        wait(model)
        stepping = time.perf_counter() - begun
    wait(model)
    return Solved(results, time.perf_counter() - clock, stepping)


def batch_tokens(model: Model) -> int:
    """How many tokens to run at once."""
    return 32768 if model.device.type == "cuda" else 1024


def wait(model: Model) -> None:
    """Waits until a GPU has finished, before a clock is read."""
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
