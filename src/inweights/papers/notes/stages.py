"""Note 004, section 7.2: what the layers of a model do, one after the other: position, matching, task, answer."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.compare import untrained
from inweights.lab import read_linearly, states
from inweights.lab.models import Learner
from inweights.lab.predictors import Ridge
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.models import Model
from inweights.papers._demonstrated import LEAST
from inweights.papers._heads import patterns
from inweights.papers._papers import NOTES
from inweights.papers._vectors import accuracy
from inweights.papers._vectors import states as last_states
from inweights.papers.induction_heads._scores import previous_token
from inweights.papers.induction_heads.smollm2 import COPIES, scored, sequences
from inweights.papers.task_vectors.claims import NEEDS, SHOWN, Task, given_of, layers_tried, name_of

STAGES = ("position", "matching", "task", "answer")
READABLE = 0.1
"""The least R² of what counts as known after a layer."""


def in_order(layers: list[float]) -> list[float]:
    """1 for each of the six pairs of stages in which the earlier one has the smaller layer, else 0; equal ones count
    half, and what was never there (not a number) is in no order."""
    return [(a < b) + 0.5 * (a == b) for a, b in combinations(layers, 2)]


# --- a decoder of the lab ---------------------------------------------------------------------------------------------


def quantities(sample: Sample) -> dict[str, Tensor]:
    """What each stage would have to know, at every point but the first, `(batch, points − 1, numbers)`.

    - `position`: the number of examples. `matching`: the labels so far, weighted by the products of their inputs with
      the query. `task`: the weights that the examples determine. `answer`: the label of the query.
    """
    xs, ys = sample.xs.double(), sample.ys.double()
    points = xs.shape[1]
    matched = ((xs @ xs.mT).tril(-1) @ ys.unsqueeze(-1)) / torch.arange(points).clamp(min=1).unsqueeze(-1)
    every = {
        "position": torch.arange(points, dtype=torch.float64).expand(len(xs), -1).unsqueeze(-1),
        "matching": matched,
        "task": Ridge(penalty=0.01).weights(xs, ys),
        "answer": ys.unsqueeze(-1),
    }
    return {name: values[:, 1:] for name, values in every.items()}


def read_out(model: Learner, known: Sample, asked: Sample) -> dict[str, list[float]]:
    """R² of a linear probe of each stage after each layer, on other prompts than it was fitted on."""
    pairs = list(zip(states(model, known.xs, known.ys), states(model, asked.xs, asked.ys), strict=True))
    before, after = quantities(known), quantities(asked)
    results: dict[str, list[float]] = {name: [] for name in STAGES}
    for fit, ask in pairs:
        fit, ask = (F.layer_norm(h, h.shape[-1:])[:, 1:].flatten(0, 1) for h in (fit, ask))
        for name in STAGES:
            target = after[name].flatten(0, 1)
            missed = target - read_linearly(fit, before[name].flatten(0, 1), ask)
            results[name].append(1 - (missed.square().sum() / (target - target.mean(0)).square().sum()).item())
    return results


def formed(curve: list[float]) -> float:
    """The first layer, from 1, with nine tenths of the largest R²; not a number if that is below `READABLE`."""
    top = max(curve)
    return 1.0 + next(k for k, r in enumerate(curve) if r >= 0.9 * top) if top >= READABLE else math.nan


@claim("note-stages-lab", NOTES, "Note 004, section 7.2", needs=("depth-8",), cost=(1.1, 60))
def stages_lab(trial: Trial) -> Measurement:
    """The first layers of a model encode tokens and positions, the next match patterns, the next form the task, and the
    last give the answer.

    Measured: in a decoder of 8 layers, for each of the four the first layer after which a linear probe has nine tenths
    of its largest R²; the share of the six pairs that are in the note's order, equal layers counting half. What never
    has an R² of 0.1 is in no order.

    Control: the decoder before its training.

    Settings: linear functions, d = 5, 15 examples; 256 prompts to fit probes and 256 others (full: 1,024). Position is
    the number of examples; matching the labels weighted by the products of their inputs with the query, which is one
    step of gradient descent; the task the ridge regression's weights; the answer the label.

    Precondition: the answer can be read after the last layer: R² of at least 0.8.
    """
    known, asked = (Linear(dims=5).sample(trial.draw(trial.size(256, 1024), step), 16) for step in (0, 1))
    trained, before = trial.trained("depth-8"), build(trial.recipe("depth-8")).to(trial.device)
    curves, bare = read_out(trained, known, asked), read_out(before, known, asked)
    trial.require(curves["answer"][-1] >= 0.8, f"the decoder has not learned: R² {curves['answer'][-1]:.2f}")
    layers, other = ([formed(each[name]) for name in STAGES] for each in (curves, bare))
    return Measurement(
        {"order": (in_order(layers), in_order(other))},
        plot=Plot("What can be read", "layer", "R²", list(range(1, len(curves["task"]) + 1)), curves),
        reported={f"largest R² of {name}": max(curves[name]) for name in STAGES}
        | {f"layer of {name}": layer for name, layer in zip(STAGES, layers, strict=True) if math.isfinite(layer)},
    )


# --- SmolLM2 ----------------------------------------------------------------------------------------------------------


def lens(task: Task, queries: range) -> list[float]:
    """The accuracy of the answers that the model's own head reads after each layer, with demonstrations."""
    net = cast(Any, task.model.model)
    prefix = task.shown.prefix(range(SHOWN))
    measured = last_states(task.model, [(*prefix, *task.shown.queries[i]) for i in queries])
    head, right = net.get_output_embeddings(), task.shown.right[list(queries)]
    with torch.no_grad():
        return [accuracy(head(net.model.norm(h)), right) for h in measured]


def stage_layers(trial: Trial, model: Model) -> tuple[list[float], float]:
    """The layers of the four stages, as shares of the depth, and the accuracy of the model with demonstrations."""
    tokens = sequences(model, COPIES, trial.size(2, 8), trial.generator())
    seen = patterns(model, tokens)
    task, tried = given_of(trial, model, name_of(trial)), layers_tried(model)
    queries = range(task.dev.start, task.tests.stop)
    curve = task.replaced(task.vector, tried, queries)
    answers = lens(task, queries)
    layers = [
        int(previous_token(seen[..., 1:, 1:]).amax(1).argmax()),
        int(scored(seen, tokens).amax(1).argmax()),
        tried[max(range(len(tried)), key=lambda k: curve[k])],
        next(k for k, a in enumerate(answers) if a >= answers[-1] / 2),
    ]
    return [(layer + 1) / len(model.anatomy.names) for layer in layers], answers[-1]


@cache
def both(trial: Trial) -> tuple[list[float], list[float]]:
    """The depths of the stages in SmolLM2 and in a model of its shape with random weights."""
    model = trial.language_model("float32")
    depths, right = stage_layers(trial, model)
    trial.require(right >= LEAST, f"SmolLM2 answers too little with demonstrations: {right:.0%}")
    return depths, stage_layers(trial, untrained(model, trial.seed))[0]


@claim("note-stages-order", NOTES, "Note 004, section 7.2", needs=NEEDS, cost=(44, 400))
def stages_order(trial: Trial) -> Measurement:
    """In a language model as well, position comes first, then matching, then the task, then the answer.

    Measured: the share of the six pairs of stages that are in the note's order, equal layers counting half. The layers
    are those of the head that attends most to the token before (position), of the best prefix-matching head on repeated
    random tokens (matching), of the best task vector (task), and the first after which the model's own head reads at
    least half as many answers correctly as after the last (answer).

    Control: a model of the same shape with random weights.

    Settings: SmolLM2-135M, float32; 25 random tokens, four times, in 2 rows (full: 8); past tense, plurals or capitals
    with 5 demonstrations, 16 queries (full: 52), every third layer for task vectors.

    Precondition: the model answers at least a fifth of the queries correctly with demonstrations.
    """
    depths, other = both(trial)
    reported = {f"depth of {name}": depth for name, depth in zip(STAGES, depths, strict=True)}
    return Measurement({"order": (in_order(depths), in_order(other))}, reported=reported)


@claim("note-stages-places", NOTES, "Note 004, section 7.2", needs=NEEDS, cost=(44, 400))
def stages_places(trial: Trial) -> Measurement:
    """Of eight layers, the first two encode positions, three and four match patterns, five and six form the task, and
    from seven on it is executed.

    Measured: the share of the four stages of SmolLM2 that lie in their quarter of the depth.

    Control: a model of the same shape with random weights.

    Settings: those of note-stages-order.

    Precondition: the model answers at least a fifth of the queries correctly with demonstrations.
    """
    depths, other = both(trial)
    return Measurement({"places": (in_place(depths), in_place(other))})


def in_place(depths: list[float]) -> list[float]:
    """1 for each stage in its quarter of the depth, else 0."""
    return [float(k / 4 < depth <= (k + 1) / 4) for k, depth in enumerate(depths)]
