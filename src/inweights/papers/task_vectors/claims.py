"""Hendel et al. 2023: in-context learning creates task vectors (arXiv 2310.15916), on SmolLM2 and tasks of words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.compare import Shots
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.models import Model
from inweights.papers._demonstrated import LEAST
from inweights.papers._papers import HENDEL
from inweights.papers._vectors import Past, accuracy, gained, hits, question, read, run_last, run_with, states, words

TASKS = ("past-tense", "plurals", "capitals")
NEEDS = ("smollm2", *TASKS)
SHOWN, DUMMIES = 5, 2
"""The paper's demonstrations, and the queries by which a vector is read, which are no test queries."""
STEP = 3
"""Every third layer is tried."""


@dataclass(frozen=True, eq=False)
class Task:
    """The demonstrations of a task and its queries: two to read a vector with, some to choose a layer, others to test.

    - `vector`: the residual stream at the last token after each block, `(layers, width)`, the mean of two queries.
    """

    model: Model
    name: str
    shown: Shots
    vector: Tensor
    chosen_on: int

    @cached_property
    def past(self) -> Past:
        """The demonstrations, read once."""
        return read(self.model, self.shown.prefix(range(SHOWN)))

    @property
    def dev(self) -> range:
        return range(DUMMIES, DUMMIES + self.chosen_on)

    @property
    def tests(self) -> range:
        return range(DUMMIES + self.chosen_on, len(self.shown.queries))

    def prompted(self, queries: range) -> float:
        """The accuracy with the demonstrations."""
        logits = run_last(self.model, [self.shown.queries[i] for i in queries], self.past)
        return accuracy(logits, self.shown.right[list(queries)])

    def replaced(self, vectors: Tensor, layers: list[int], queries: range) -> list[float]:
        """The accuracy without demonstrations for each layer, if the state there is that of `vectors`,
        `(all layers, width)`."""
        texts = [(*self.shown.before, *self.shown.queries[i]) for i in queries]
        each = [layer for layer in layers for _ in queries]
        logits = run_with(self.model, texts * len(layers), each, vectors[each])
        right = self.shown.right[list(queries)]
        return [accuracy(part, right) for part in logits.unflatten(0, (len(layers), -1))]

    def bare(self, queries: range) -> float:
        texts = [(*self.shown.before, *self.shown.queries[i]) for i in queries]
        return accuracy(run_last(self.model, texts), self.shown.right[list(queries)])


@cache
def given(trial: Trial, name: str) -> Task:
    """A task with its vector in SmolLM2."""
    return given_of(trial, trial.language_model("float32"), name)


def given_of(trial: Trial, model: Model, name: str) -> Task:
    """A task with its vector in a model."""
    chosen_on, tests = trial.size((6, 10), (12, 40))
    shown = words(model, name, SHOWN, DUMMIES + chosen_on + tests, trial.seed)
    texts = [(*shown.prefix(range(SHOWN)), *shown.queries[i]) for i in range(DUMMIES)]
    return Task(model, name, shown, states(model, texts).mean(1), chosen_on)


def name_of(trial: Trial, after: int = 0) -> str:
    """The task of a trial; or the one so many places after it."""
    return TASKS[(trial.seed + after) % len(TASKS)]


def layers_tried(model: Model) -> list[int]:
    """Every third layer, the last among them."""
    count = len(model.anatomy.names)
    return list(range((count - 1) % STEP, count, STEP))


def pair(trial: Trial) -> tuple[Task, Task]:
    """The task of a trial, and another one."""
    return given(trial, name_of(trial)), given(trial, name_of(trial, 1))


def required(trial: Trial, task: Task, prompted: float, bare: float) -> None:
    trial.require(
        prompted - bare >= LEAST, f"demonstrations of {task.name} gain too little: {bare:.0%} to {prompted:.0%}"
    )


@claim("hendel-restores", HENDEL, "Section 4, Figure 4", cost=(10, 300), needs=NEEDS)
def restores(trial: Trial) -> Measurement:
    """A task vector restores most of the accuracy of demonstrations in a run without them.

    Measured: the accuracy where the residual stream at the last token of a query alone is replaced by the task vector,
    as a share of what demonstrations gain. The vector is read at the last token of the demonstrations with a query that
    is not tested; the layer is chosen on other queries.

    Control: the vector of another task, at the same layer.

    Settings: SmolLM2-135M, float32; past tense, plurals or capitals; 5 demonstrations; two queries to read the vector,
    6 to choose one of every third layer, 10 to test (full: 12 and 40). First tokens of answers are judged, over the
    whole vocabulary. Also measured: a random vector of the same length, and the vector at the last layer.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    own, other = pair(trial)
    tried = layers_tried(own.model)
    prompted, bare = own.prompted(own.tests), own.bare(own.tests)
    required(trial, own, prompted, bare)
    dev = own.replaced(own.vector, tried, own.dev)
    layer = tried[max(range(len(tried)), key=lambda k: dev[k])]
    noise = torch.randn(own.vector.shape, generator=trial.generator())
    noise = noise * own.vector.norm(dim=1, keepdim=True) / noise.norm(dim=1, keepdim=True)
    (with_,), (wrong,), (random,) = (own.replaced(v, [layer], own.tests) for v in (own.vector, other.vector, noise))
    (last,) = own.replaced(own.vector, [tried[-1]], own.tests)
    return Measurement(
        {"restored": (gained(with_, bare, prompted), gained(wrong, bare, prompted))},
        reported={
            "prompted": prompted,
            "bare": bare,
            "with the vector": with_,
            "with a random vector": random,
            "at the last layer": last,
            "layer": layer,
            "paper, with the vector": 0.742,
            "paper, prompted": 0.844,
        },
    )


@claim("hendel-middle-layers", HENDEL, "Section 4.1, Figure 3", cost=(15, 200), needs=NEEDS)
def middle_layers(trial: Trial) -> Measurement:
    """Task vectors work best in intermediate layers: earlier the task is not there yet, later it can no longer be used.

    Measured: the largest share of the gain by demonstrations that a vector restores in the middle third of the layers,
    less the largest in the other two thirds.

    Control: the same with the vector of another task.

    Settings: those of hendel-restores, all queries but those that the vector was read with.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    own, other = pair(trial)
    tried, count = layers_tried(own.model), len(own.model.anatomy.names)
    queries = range(own.dev.start, own.tests.stop)
    prompted, bare = own.prompted(queries), own.bare(queries)
    required(trial, own, prompted, bare)
    curves = [[gained(a, bare, prompted) for a in own.replaced(t.vector, tried, queries)] for t in (own, other)]
    middle = [k for k, layer in enumerate(tried) if count / 3 <= layer + 1 <= 2 * count / 3]

    def peak(curve: list[float]) -> float:
        return max(curve[k] for k in middle) - max(c for k, c in enumerate(curve) if k not in middle)

    lines = {"its vector": curves[0], "that of another task": curves[1]}
    best = max(range(len(tried)), key=lambda k: curves[0][k])
    return Measurement(
        {"peak": (peak(curves[0]), peak(curves[1]))},
        plot=Plot("Gain that a task vector restores", "layer", "share", [layer + 1 for layer in tried], lines),
        reported={"best layer": tried[best] + 1, "restored there": curves[0][best]},
    )


@claim(
    "hendel-clusters",
    HENDEL,
    "Section 5.1, Figure 5",
    cost=(14, 240),
    needs=("smollm2", "past-tense", "plurals", "capitalise"),
)
def clusters(trial: Trial) -> Measurement:
    """Task vectors of one task are more alike than those of different tasks, whatever the demonstrations.

    Measured: the share of vectors whose task is that of the most similar mean of the others, by cosine, for three tasks
    (chance: 1/3), at the middle layer.

    Control: the same queries without demonstrations.

    Rival: that vectors differ by the words that are shown, and not by what is done with them: demonstrations with each
    other's answers.

    Settings: SmolLM2-135M; past tense, plurals and capital letters, the last two with the same nouns; 3 prompts for
    each task (full: 8) of 5 demonstrations and a query, the same queries in all tasks.

    Precondition: none: vectors that are all alike would fail.
    """
    model, count, generator = trial.language_model("float32"), trial.size(3, 8), trial.generator()
    names, layer = ("past-tense", "plurals", "capitalise"), len(model.anatomy.names) // 2
    queries = words(model, "plurals", 1, count, trial.seed + 1000).queries
    texts: dict[str, list[tuple[int, ...]]] = {"own": [], "shuffled": [], "bare": []}
    for name in names:
        for k in range(count):
            shown = words(model, name, SHOWN, 1, 10 * trial.seed + k)
            texts["own"].append((*shown.prefix(range(SHOWN)), *queries[k]))
            texts["shuffled"].append((*shown.relabelled(generator).prefix(range(SHOWN)), *queries[k]))
            texts["bare"].append((*shown.before, *queries[k]))
    correct = {kind: assigned(states(model, t)[layer].unflatten(0, (len(names), count))) for kind, t in texts.items()}
    return Measurement({"correct": (correct["own"], correct["bare"])}, rivals={"correct": correct["shuffled"]})


def assigned(vectors: Tensor) -> list[float]:
    """1 for each of the vectors `(groups, each, width)` that is most like the mean of its own group, else 0.

    Means leave out the vectors of the same place in all groups, which share a query.
    """
    groups, each, _ = vectors.shape
    right: list[float] = []
    for k in range(each):
        means = vectors[:, torch.arange(each) != k].mean(1).double()
        for g in range(groups):
            likeness = F.cosine_similarity(means, vectors[g, k].double(), dim=-1)
            # A tie is no evidence: all groups would be right.
            right.append(float((likeness[g] > likeness[torch.arange(groups) != g] + 1e-9).all()))
    return right


@claim("hendel-override", HENDEL, "Section 5.2, Table 2", cost=(7, 200), needs=("smollm2", "plurals", "capitalise"))
def override(trial: Trial) -> Measurement:
    """A task vector overrides demonstrations of another task: the model does what the vector says.

    Measured: the share of answers that are the word with a capital letter, where demonstrations show plurals and the
    vector is that of capital letters.

    Control: the demonstrations without the vector.

    Settings: SmolLM2-135M; 5 demonstrations of plurals, queries of other nouns; the vector's layer is the best of every
    third on 6 queries without demonstrations (full: 12), 10 others are tested (full: 40). Also measured: the share of
    plurals, before and after. The paper reports 0.77 and, of the task that is shown, 0.91 before and 0.10 after.

    Precondition: accuracy of plurals is at least 0.2 higher with demonstrations than without.
    """
    shown, vector = given(trial, "plurals"), given(trial, "capitalise")
    model, tests, tried = shown.model, shown.tests, layers_tried(shown.model)
    before = shown.prompted(tests)
    required(trial, shown, before, shown.bare(tests))
    dev = vector.replaced(vector.vector, tried, vector.dev)
    layer = tried[max(range(len(tried)), key=lambda k: dev[k])]
    texts = [shown.shown.queries[i] for i in tests]
    capital = torch.tensor([begins(model, question(shown.shown, i).capitalize()) for i in tests])
    plain = run_last(model, texts, shown.past)
    steered = run_with(model, texts, [layer] * len(texts), vector.vector[[layer] * len(texts)], past=shown.past)
    return Measurement(
        {"follows": (hits(steered, capital), hits(plain, capital))},
        reported={
            "plurals before": before,
            "plurals after": accuracy(steered, shown.shown.right[list(tests)]),
            "layer": layer,
        },
    )


def begins(model: Model, answer: str) -> int:
    """The first token of an answer."""
    assert model.tokenizer is not None
    return int(model.tokenizer(f" {answer}", add_special_tokens=False)["input_ids"][0])
