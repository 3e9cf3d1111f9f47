"""Function vectors: the mean outputs of the heads that carry a task, found by their causal effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from inweights.compare import Shots
from inweights.ledger import Trial
from inweights.models import Model
from inweights.papers._heads import Head, all_heads, blocks, changed_heads, others, shape, top
from inweights.papers._vectors import Text, padded, read, run_last, words

TASKS = ("past-tense", "plurals", "capitals")
SHOWN, HEADS = 10, 10
"""The paper's demonstrations, and the number of heads of a vector."""


@dataclass(frozen=True, eq=False)
class Function:
    """A task, with the mean outputs of heads at the last token of its prompts, `(layers, heads, width)`, and the causal
    effect of each head, `(layers, heads)`.

    - `shown`: demonstrations and test queries. `shuffled`: the same demonstrations with each other's answers.
    """

    model: Model
    name: str
    shown: Shots
    shuffled: Shots
    means: Tensor
    effects: Tensor

    @property
    def heads(self) -> list[Head]:
        return top(self.effects, HEADS)

    def vector(self, heads: Sequence[Head]) -> Tensor:
        """The sum of what these heads add to the residual stream in the mean, `(width,)`."""
        every, count = blocks(self.model), shape(self.model)[1]
        outputs = {layer: every[layer].self_attn.o_proj.weight.detach().unflatten(1, (count, -1)) for layer, _ in heads}
        return torch.stack([outputs[layer][:, head] @ self.means[layer, head] for layer, head in heads]).sum(0)

    def random(self, generator: torch.Generator) -> Tensor:
        """The vector of as many other heads of the same layers."""
        return self.vector(others(self.model, self.heads, generator))

    @property
    def layer(self) -> int:
        """Where vectors are added: after a third of the layers."""
        return len(self.model.anatomy.names) // 3 - 1


@cache
def function(trial: Trial) -> Function:
    """The task of a trial: heads are averaged over some prompts, and their effects measured on others."""
    model, name = trial.language_model("float32"), TASKS[trial.seed % len(TASKS)]
    generator = trial.generator()
    seeds = [1000 * trial.seed + k for k in range(1, 1 + trial.size(3, 8))]
    prompts = [words(model, name, SHOWN, 1, seed) for seed in seeds]
    means = mean_outputs(model, [(*p.prefix(range(SHOWN)), *p.queries[0]) for p in prompts])
    wrong = [p.relabelled(generator) for p in prompts[: trial.size(2, 6)]]
    effects = torch.stack([effect(model, p, means) for p in wrong]).mean(0)
    shown = words(model, name, SHOWN, trial.size(10, 20), trial.seed)
    return Function(model, name, shown, shown.relabelled(generator), means, effects)


def mean_outputs(model: Model, texts: Sequence[Text]) -> Tensor:
    """What the output matrices read from each head at the last token, in the mean: `(layers, heads, head width)`."""
    last, rows = padded(texts)[1], torch.arange(len(texts))
    outputs: dict[int, Tensor] = {}

    def note(layer: int, heads: Tensor) -> Tensor:
        outputs[layer] = heads[rows, last].mean(0)
        return heads

    with changed_heads(model, note, range(shape(model)[0])):
        run_last(model, texts)
    return torch.stack([outputs[layer] for layer in range(shape(model)[0])])


def effect(model: Model, shown: Shots, means: Tensor) -> Tensor:
    """By how much the probability of the right answer to a query rises, after demonstrations with wrong answers, if one
    head has its mean output at the last token: `(layers, heads)`. All heads are tried in one batch."""
    heads, (query, right) = all_heads(model), (shown.queries[0], int(shown.right[0]))
    past = read(model, (*shown.prefix(range(len(shown))), *query[:-1]))

    def change(layer: int, output: Tensor) -> Tensor:
        output = output.clone()
        for row, (own, head) in enumerate(heads):
            if own == layer:
                output[row, -1, head] = means[layer, head]
        return output

    bare = run_last(model, [query[-1:]], past).softmax(-1)[0, right]
    with changed_heads(model, change, range(shape(model)[0])):
        changed = run_last(model, [query[-1:]] * len(heads), past).softmax(-1)[:, right]
    return (changed - bare).unflatten(0, shape(model))
