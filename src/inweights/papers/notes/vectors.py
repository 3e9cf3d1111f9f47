"""Task vectors, function vectors, thought vectors and the exact update of the same demonstrations, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.models import Prompt, patch
from inweights.papers._demonstrated import LEAST
from inweights.papers._heads import blocks
from inweights.papers._papers import NOTES
from inweights.papers._vectors import accuracy, gained, run_last, run_with, words
from inweights.papers.function_vectors._effects import SHOWN as SHOWN_FOR_HEADS
from inweights.papers.function_vectors._effects import Function, function, mean_outputs
from inweights.papers.task_vectors.claims import NEEDS, SHOWN, Task, layers_tried, pair
from inweights.papers.transmuting.steering import Vectors, alike, vectors
from inweights.running import hidden, hooked

AWAY = 9
"""Layers between a vector's own layer and the wrong one, a multiple of the step between layers that are tried."""


@cache
def of_both(trial: Trial) -> tuple[Vectors, Vectors]:
    """The vectors of a trial's task and of another one, by queries that are not tested."""
    own, other = pair(trial)
    queries = range(trial.size(2, 6))
    return vectors(own, queries), vectors(other, queries)


def of_length(like: Tensor, generator: torch.Generator) -> Tensor:
    """Random vectors of the same lengths."""
    noise = torch.randn(like.shape, generator=generator)
    return noise * like.norm(dim=-1, keepdim=True) / noise.norm(dim=-1, keepdim=True)


def added(task: Task, by_layer: Tensor, layers: list[int], queries: range) -> list[float]:
    """The accuracy without demonstrations for each layer, if its vector of `(all layers, width)` is added there."""
    texts = [(*task.shown.before, *task.shown.queries[i]) for i in queries]
    each = [layer for layer in layers for _ in queries]
    logits = run_with(task.model, texts * len(layers), each, by_layer[each], add=True)
    right = task.shown.right[list(queries)]
    return [accuracy(part, right) for part in logits.unflatten(0, (len(layers), -1))]


def best(curve: list[float], layers: list[int]) -> int:
    """The layer of the largest accuracy, the first of equal ones."""
    return layers[max(range(len(layers)), key=lambda k: curve[k])]


def wrong_layer(layer: int) -> int:
    """A layer before, or behind if there is none."""
    return layer - AWAY if layer >= AWAY else layer + AWAY


def shares(trial: Trial, task: Task) -> Callable[[float], float]:
    """From accuracies to shares of what demonstrations gain on the test queries."""
    prompted, bare = task.prompted(task.tests), task.bare(task.tests)
    trial.require(
        prompted - bare >= LEAST, f"demonstrations of {task.name} gain too little: {bare:.0%} to {prompted:.0%}"
    )
    return lambda accuracy: gained(accuracy, bare, prompted)


@claim("note-vectors-thought", NOTES, "004, section 7.2, task vectors", cost=(50, 250), needs=NEEDS)
def thought(trial: Trial) -> Measurement:
    """The vectors that the theorem adds to outputs are a task vector: summed up to a layer and added to the stream of a
    query alone, they make a model do the task.

    Measured: the accuracy with the sum of the thought vectors Δb′ of the exact patches of some queries, added at one
    layer to the last token of other queries, as a share of what demonstrations gain; the layer is chosen on a third set
    of queries.

    Control: the largest of three: the sum of another task's thought vectors, a random vector of the same length, and
    the sum up to a layer nine layers away.

    Settings: SmolLM2-135M, float32; past tense, plurals or capitals, 5 demonstrations, every third layer; 2 queries for
    the thought vectors (full: 6), 6 for the layer and 10 to test (full: 12 and 40). Also measured, at layers that are
    chosen in the same way: the task vector, put in place of the state, and the mean difference of the stream with
    demonstrations and without, added. The plot has all layers, on the queries that they are chosen by.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    own, _ = pair(trial)
    share, (mine, theirs) = shares(trial, own), of_both(trial)
    tried, summed = layers_tried(own.model), mine.thought.cumsum(0)
    curves = {
        "summed thought vectors": added(own, summed, tried, own.dev),
        "mean difference": added(own, mine.steering, tried, own.dev),
        "task vector": own.replaced(own.vector, tried, own.dev),
    }
    at = {name: best(curve, tried) for name, curve in curves.items()}
    layer = at["summed thought vectors"]
    controls = {
        "another task's": theirs.thought.cumsum(0),
        "a random vector": of_length(summed, trial.generator()),
        "nine layers away": summed[wrong_layer(layer)].expand_as(summed),
    }
    others = {name: share(added(own, v, [layer], own.tests)[0]) for name, v in controls.items()}
    restored = share(added(own, summed, [layer], own.tests)[0])
    return Measurement(
        {"restored": (restored, max(others.values()))},
        plot=Plot("Queries that vectors answer", "layer", "accuracy", [k + 1 for k in tried], curves),
        reported=others
        | {
            "mean difference": share(added(own, mine.steering, [at["mean difference"]], own.tests)[0]),
            "task vector": share(own.replaced(own.vector, [at["task vector"]], own.tests)[0]),
        }
        | {f"layer of the {name}": k + 1 for name, k in at.items()},
    )


def of_other_task(trial: Trial, task: Function, other: str) -> Tensor:
    """The vector of a task's heads with their mean outputs in another task."""
    seeds = [1000 * trial.seed + k for k in range(1, 1 + trial.size(3, 8))]
    prompts = [words(task.model, other, SHOWN_FOR_HEADS, 1, seed) for seed in seeds]
    texts = [(*p.prefix(range(SHOWN_FOR_HEADS)), *p.queries[0]) for p in prompts]
    return replace(task, name=other, means=mean_outputs(task.model, texts)).vector(task.heads)


@claim("note-vectors-function", NOTES, "004, section 7.2, task vectors", cost=(45, 500), needs=NEEDS)
def functions(trial: Trial) -> Measurement:
    """A function vector does a task without demonstrations if it is added near the layer of the task vector, and not
    after a third of the layers.

    Measured: `restored`: the accuracy with the function vector added to the last token of a query alone, at the layer
    that is best on other queries, as a share of what 5 demonstrations gain. `apart`: how far this layer is from that of
    the task vector, as a share of all layers.

    Control: for `restored` the best of three: at the same layer, the same heads' mean outputs in another task, and the
    vector of as many other heads of the same layers, scaled to the same length; and the function vector after a third
    of the layers. For `apart` the distance of that layer.

    Settings: those of note-vectors-thought, and for the function vector those of todd-zero-shot, with its bound. Also
    measured: the share that the task vector restores at its layer, and the largest cosine of the function vector with
    the mean difference of the stream, and with that of another task. The plot has all layers, on the queries that they
    are chosen by.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    own, other = pair(trial)
    share, task, both = shares(trial, own), function(trial), of_both(trial)
    tried, vector, random = layers_tried(own.model), task.vector(task.heads), task.random(trial.generator())

    def everywhere(one: Tensor) -> Tensor:
        return one.expand_as(own.vector)

    curves = {
        "function vector": added(own, everywhere(vector), tried, own.dev),
        "task vector": own.replaced(own.vector, tried, own.dev),
    }
    layer, of_task = (best(curve, tried) for curve in curves.values())

    def at(layer: int, one: Tensor) -> float:
        return share(added(own, everywhere(one), [layer], own.tests)[0])

    controls = {
        "another task's": at(layer, of_other_task(trial, task, other.name)),
        "other heads": at(layer, random * vector.norm() / random.norm()),
        "after a third of the layers": at(task.layer, vector),
    }
    alike_to = [alike(everywhere(vector), each.steering).max().item() for each in both]
    distances = [abs(k - of_task) / len(own.vector) for k in (layer, task.layer)]
    return Measurement(
        {"restored": (at(layer, vector), max(controls.values())), "apart": (distances[0], distances[1])},
        plot=Plot("Queries that vectors answer", "layer", "accuracy", [k + 1 for k in tried], curves),
        reported=controls
        | {"task vector": share(own.replaced(own.vector, [of_task], own.tests)[0])}
        | {"layer": layer + 1, "layer of the task vector": of_task + 1}
        | {"largest cosine": alike_to[0], "largest cosine with another task's": alike_to[1]},
    )


def written(task: Task, queries: range) -> Tensor:
    """What the exact update adds to the output of each block at the last token, for the input that the block has in the
    patched model: `(layers, width)`, the mean over queries."""
    return torch.stack([written_for(task, task.shown.queries[i]) for i in queries]).mean(0)


@torch.no_grad()
def written_for(task: Task, query: tuple[int, ...]) -> Tensor:
    """The same for one query."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any], Tensor]] = []

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        calls.append((args, kwargs, hidden(out)[0, -1]))

    exact = patch(Prompt(task.model, list(task.shown.prefix(range(SHOWN))), list(query)), "static")
    with exact.applied(task.model), hooked(after=[(block, note) for block in blocks(task.model)]):
        run_last(task.model, [query])
    # A block without the update, for the same inputs.
    plain = [hidden(block(*a, **k))[0, -1] for block, (a, k, _) in zip(blocks(task.model), calls, strict=True)]
    return torch.stack([out for *_, out in calls]) - torch.stack(plain)


@claim("note-vectors-exact", NOTES, "004, section 7.2, task vectors", cost=(35, 130), needs=NEEDS)
def exact(trial: Trial) -> Measurement:
    """What the exact update of a block adds to its output is what the demonstrations change in the residual stream
    there.

    Measured: the cosine, mean over layers, of what the changed weights add to the output of a block, for the input that
    it has in the patched model, with the step of the steering vector over that block: the difference of the stream with
    demonstrations and without, after it less before it. Both are means, of different queries.

    Control: the larger of two: random vectors of the same lengths, and what is added nine layers away.

    Rival: that demonstrations of any task change the stream in this way: what the update of another task adds.

    Settings: SmolLM2-135M, float32; past tense, plurals or capitals, 5 demonstrations; 2 queries for the updates (full:
    6), 2 others for the steering vector (full: 6); the blocks behind the first. Also measured: the cosine of the sums
    up to a layer with the steering vector there, and how much longer the sum is in the last layer.

    Precondition: none: a patch that is not exact would add something else, and fail.
    """
    own, other = pair(trial)
    count = trial.size(2, 6)
    steering = vectors(own, range(count, 2 * count)).steering
    mine, theirs = (written(task, range(count)) for task in (own, other))
    steps, noise = steering.diff(dim=0), of_length(mine, trial.generator())
    curves = {
        "exact update": alike(mine[1:], steps),
        "another task's": alike(theirs[1:], steps),
        "random": alike(noise[1:], steps),
        "nine layers away": alike(mine[1 : len(mine) - AWAY], steps[AWAY:]),
    }
    lines = {name: curves[name].tolist() for name in ("exact update", "another task's", "random")}
    control = max(curves[name].mean().item() for name in ("random", "nine layers away"))
    return Measurement(
        {"cosine": (curves["exact update"].mean().item(), control)},
        rivals={"cosine": curves["another task's"].mean().item()},
        plot=Plot("What the exact update adds", "layer", "cosine", range(2, len(mine) + 1), lines),
        reported={name: curve.mean().item() for name, curve in curves.items()}
        | {
            "sums with the steering vector": alike(mine.cumsum(0), steering).mean().item(),
            "length of the last sum": (mine.sum(0).norm() / steering[-1].norm()).item(),
            "updates of both tasks": alike(mine, theirs).mean().item(),
        },
    )
