"""*Transmuting prompts into weights* (arXiv 2510.08734): thought vectors beside task vectors and function vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.models import Prompt, patch
from inweights.papers._heads import blocks
from inweights.papers._papers import MAZZAWI
from inweights.papers._vectors import Text, run_last, states
from inweights.papers.function_vectors._effects import function
from inweights.papers.task_vectors.claims import NEEDS, SHOWN, Task, pair
from inweights.running import hooked


class Vectors(NamedTuple):
    """For each layer, means over queries at the last token, `(layers, width)`.

    - `steering`: the residual stream with demonstrations less that without: what a task vector adds.
    - `thought`: what attention adds with demonstrations less what it adds without, on the stream of the exact patch:
      the vector Δb′ of the patch.
    """

    steering: Tensor
    thought: Tensor


def vectors(task: Task, queries: range) -> Vectors:
    """The vectors of a task by some of its queries."""
    prefix = task.shown.prefix(range(SHOWN))
    steering, thought = [], []
    for i in queries:
        query = task.shown.queries[i]
        whole, alone = (*prefix, *query), (*task.shown.before, *query)
        steering.append(states(task.model, [whole])[:, 0] - states(task.model, [alone])[:, 0])
        exact = patch(Prompt(task.model, list(prefix), list(query)), "static")
        with_ = attended(task, whole)
        with exact.applied(task.model):
            without = attended(task, query)
        thought.append(with_ - without)
    return Vectors(torch.stack(steering).mean(0), torch.stack(thought).mean(0))


def attended(task: Task, text: Text) -> Tensor:
    """What attention adds at the last token of a text, `(layers, width)`."""
    measured: list[Tensor] = []

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        measured.append(out[0, -1])

    with hooked(after=[(block.self_attn.o_proj, note) for block in blocks(task.model)]):
        run_last(task.model, [text])
    return torch.stack(measured)


def alike(one: Tensor, other: Tensor) -> Tensor:
    """The cosine in each layer, `(layers,)`."""
    return F.cosine_similarity(one.double(), other.double(), dim=-1)


@claim(
    "mazzawi-steering",
    MAZZAWI,
    "Abstract; Section 3: thought vectors and steering vectors",
    cost=(25, 400),
    needs=NEEDS,
)
def steering(trial: Trial) -> Measurement:
    """Thought vectors explain vectors that steer a model, such as mean differences of activations.

    Measured: the cosine of the sum of the thought vectors up to a layer with the steering vector there, mean over the
    layers. A layer's thought vector is the mean Δb′ of the exact patches of some queries; the steering vector is the
    mean difference of the residual stream with demonstrations and without, which is what a task vector adds.

    Control: random vectors of the same lengths in place of the thought vectors.

    Rival: that all demonstrations move the stream alike, whatever their task: the steering vector of another task.

    Settings: SmolLM2-135M, float32; past tense, plurals or capitals, 5 demonstrations, 2 queries (full: 6), last
    tokens. Also measured, as nobody has: the cosine of each thought vector with the change of the steering vector from
    the layer before; with the other task's thought vectors; with those of ten layers further; and the cosine of the
    function vector of the task with its steering vector, where it is largest.

    Precondition: the patches are exact to 1e-2 in the logits.
    """
    own, other = pair(trial)
    queries = range(trial.size(2, 6))
    mine, theirs = vectors(own, queries), vectors(other, queries)
    query, prefix = own.shown.queries[0], own.shown.prefix(range(SHOWN))
    with patch(Prompt(own.model, list(prefix), list(query)), "static").applied(own.model):
        patched = run_last(own.model, [query])
    error = (patched - run_last(own.model, [(*prefix, *query)])).abs().max().item()
    trial.require(error < 1e-2, f"the patch is not exact: an error of {error:.1e}")
    noise = torch.randn(mine.thought.shape, generator=trial.generator())
    noise = noise * (mine.thought.norm(dim=1) / noise.norm(dim=1)).unsqueeze(1)
    summed = mine.thought.cumsum(0)
    curves = {
        "its steering vector": alike(summed, mine.steering),
        "another task's": alike(summed, theirs.steering),
        "random": alike(noise.cumsum(0), mine.steering),
    }
    steps = mine.steering.diff(dim=0)
    task = function(trial)
    layers = list(range(1, len(summed) + 1))
    return Measurement(
        {"cosine": (curves["its steering vector"].mean().item(), curves["random"].mean().item())},
        rivals={"cosine": curves["another task's"].mean().item()},
        plot=Plot("Summed thought vectors", "layer", "cosine", layers, {k: c.tolist() for k, c in curves.items()}),
        reported={
            "each with the step of its layer": alike(mine.thought[1:], steps).mean().item(),
            "each with the other task's": alike(mine.thought, theirs.thought).mean().item(),
            "steering vectors of both tasks": alike(mine.steering, theirs.steering).mean().item(),
            "each with ten layers further": alike(mine.thought[:-10], mine.thought[10:]).mean().item(),
            "function vector, largest": alike(task.vector(task.heads).expand_as(mine.steering), mine.steering)
            .max()
            .item(),
            "error of the patch": error,
        },
    )
