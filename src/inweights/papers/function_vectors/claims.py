"""Todd et al. 2024: function vectors in large language models (arXiv 2310.15213), on SmolLM2 and tasks of words."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._demonstrated import LEAST
from inweights.papers._heads import all_heads, shape
from inweights.papers._papers import TODD
from inweights.papers._vectors import Past, Text, accuracy, gained, read, run_last, run_with
from inweights.papers.function_vectors._effects import HEADS, SHOWN, TASKS, Function, function

NEEDS = ("smollm2", *TASKS)


def added(
    task: Function, texts: list[Text], vector: Tensor, past: Past | None = None, layer: int | None = None
) -> float:
    """The accuracy with a vector added to the residual stream of the last token, by default after a third of the
    layers."""
    layers = [task.layer if layer is None else layer] * len(texts)
    logits = run_with(task.model, texts, layers, vector.expand(len(texts), -1), add=True, past=past)
    return accuracy(logits, task.shown.right)


@claim("todd-zero-shot", TODD, "Section 3.2, Table 2: zero-shot", cost=(19, 400), needs=NEEDS)
def zero_shot(trial: Trial) -> Measurement:
    """The summed mean outputs of a few attention heads, added to the residual stream, make a model do a task without
    demonstrations.

    Measured: the accuracy of queries alone with the vector of the 10 heads of the largest causal effect, as a share of
    what 10 demonstrations gain.

    Control: the vector of 10 other heads of the same layers.

    Settings: SmolLM2-135M, float32; past tense, plurals or capitals; mean outputs at the last token of 3 prompts (full:
    8; the paper: 100) of 10 demonstrations; the causal effect is that of a head's mean output on the probability of the
    answer, after demonstrations with each other's answers, in 2 prompts (full: 6; the paper: 25); the vector is added
    after a third of the layers; 10 queries (full: 20), first tokens of answers. The paper reports 0.575 from 0.055, of
    queries that are answered correctly with demonstrations.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    task, generator = function(trial), trial.generator()
    bare_texts: list[Text] = [(*task.shown.before, *query) for query in task.shown.queries]
    past = read(task.model, task.shown.prefix(range(SHOWN)))
    prompted = accuracy(run_last(task.model, list(task.shown.queries), past), task.shown.right)
    bare = accuracy(run_last(task.model, bare_texts), task.shown.right)
    trial.require(
        prompted - bare >= LEAST, f"demonstrations of {task.name} gain too little: {bare:.0%} to {prompted:.0%}"
    )
    vector = task.vector(task.heads)
    own, other = (added(task, bare_texts, v) for v in (vector, task.random(generator)))
    return Measurement(
        {"restored": (gained(own, bare, prompted), gained(other, bare, prompted))},
        reported={
            "prompted": prompted,
            "bare": bare,
            "with the vector": own,
            "largest effect": task.effects.max().item(),
        },
    )


@claim("todd-shuffled", TODD, "Section 3.2, Table 2: shuffled labels", cost=(19, 400), needs=NEEDS)
def shuffled(trial: Trial) -> Measurement:
    """A function vector restores the task after demonstrations whose answers are shuffled.

    Measured: the accuracy after 10 demonstrations with each other's answers with the vector added at the last token, as
    a share of what right answers gain over shuffled ones.

    Control: the vector of 10 other heads of the same layers.

    Settings: those of todd-zero-shot. The paper reports 0.908 from 0.391.

    Precondition: accuracy is at least 0.2 higher with right answers than with shuffled ones.
    """
    task, generator = function(trial), trial.generator()
    texts: list[Text] = list(task.shown.queries)
    right, wrong = (read(task.model, shown.prefix(range(SHOWN))) for shown in (task.shown, task.shuffled))
    prompted, misled = (accuracy(run_last(task.model, texts, past), task.shown.right) for past in (right, wrong))
    trial.require(prompted - misled >= LEAST, f"right answers gain too little: {misled:.0%} to {prompted:.0%}")
    own, other = (added(task, texts, v, wrong) for v in (task.vector(task.heads), task.random(generator)))
    return Measurement(
        {"restored": (gained(own, misled, prompted), gained(other, misled, prompted))},
        reported={"right answers": prompted, "shuffled": misled, "with the vector": own},
    )


@claim("todd-middle-layers", TODD, "Section 2.3, Figure 3", cost=(19, 300), needs=NEEDS)
def middle_layers(trial: Trial) -> Measurement:
    """The heads with the largest causal effect on a task are in the middle layers.

    Measured: the share of the 10 heads of the largest effect that are in the middle half of the layers.

    Control: 10 heads drawn at random from all.

    Settings: those of todd-zero-shot. The paper's first five heads of GPT-J are in layers 8 to 15 of 28. Also measured:
    the share of all positive effects that the 10 have.

    Precondition: the largest effect is at least 0.01.
    """
    task = function(trial)
    top_effect = task.effects.max().item()
    trial.require(top_effect >= 0.01, f"no head has an effect: the largest is {top_effect:.3f}")
    layers, every = shape(task.model)[0], all_heads(task.model)
    drawn = [every[i] for i in torch.randperm(len(every), generator=trial.generator()).tolist()[:HEADS]]

    def middle(heads: list[tuple[int, int]]) -> list[float]:
        return [float(layers / 4 <= layer < 3 * layers / 4) for layer, _ in heads]

    positive = task.effects.clamp(min=0)
    return Measurement(
        {"share": (middle(task.heads), middle(drawn))},
        reported={
            "share of effects": (sum(positive[h] for h in task.heads) / positive.sum()).item(),
            "mean layer": sum(layer for layer, _ in task.heads) / HEADS + 1,
        },
    )
