"""Further comparisons, each on request: many demonstrations, attention, updates of weights, martingale tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inweights.compare._alignment import aligned, implicit_changes, random_like
from inweights.compare._controls import untrained
from inweights.compare._descent import Descent, Lesson, descend
from inweights.compare._many import COUNTS, SIZES, first, most_that_fit, trained_on
from inweights.compare._martingale import bayesian, by_model, martingale_test
from inweights.compare._plan import Plan
from inweights.compare._predict import in_context, zero_shot
from inweights.compare._shots import Shots, orders, shots
from inweights.compare._similar import similarity
from inweights.compare._stages import correctness
from inweights.compare._ways import way
from inweights.models import Model

RATE = 1e-4
LOOKS = 8
"""Checkpoints of a descent on many demonstrations, at most."""
ASKED = 8
"""Queries of similarities and updates, which take a forward, or a patch, for each."""


def sizes(model: Model, plan: Plan, shown: Shots) -> dict[str, Any]:
    """The accuracy of in-context learning with 0, 1, 2, 4 and 8 demonstrations, over all orders of the plan."""
    whole = shots(model, plan.task, max(SIZES), plan.queries, plan.seed)
    results = {"0": correctness(zero_shot(model, whole), whole)}
    for count in SIZES[1:]:
        few, random = first(whole, count), torch.Generator().manual_seed(plan.seed)
        results[str(count)] = correctness(in_context(model, few, orders(count, plan.orders, random)), few)
    return results


def many(model: Model, plan: Plan, shown: Shots) -> dict[str, Any]:
    """Gradient descent on 8 to 512 demonstrations, with its gap between training and test, beside in-context learning
    with the most demonstrations that fit. Each number of demonstrations gets as many steps as one epoch of the most
    has: else it would be the steps that are compared."""
    whole = shots(model, plan.task, max(COUNTS), plan.queries, plan.seed)
    results = {}
    for count in COUNTS:
        epochs = max(COUNTS) // count
        every = max(1, epochs // LOOKS)
        results[str(count)] = trained_on(model, first(whole, count), (1e-5, 5e-5), epochs, every=every)
    few = first(whole, most_that_fit(model, whole))
    right = correctness(in_context(model, few, torch.arange(len(few)).unsqueeze(0)), few)
    return {"descent": results, "in_context": {"demonstrations": len(few), "accuracy_labels": right["accuracy_labels"]}}


def attention(model: Model, plan: Plan, shown: Shots) -> dict[str, Any]:
    """SimAOU, SimAM and SimAM_Δ of gradient descent and of layer-causal descent, beside those of an untrained model."""
    results: dict[str, Any] = {}
    for name, used in (("trained", model), ("untrained", untrained(model, plan.seed))):
        for kind in ("gd", "layer-causal"):
            (point,) = descend(used, shown, way(kind), RATE, epochs=plan.every, every=plan.every)
            order = list(range(len(shown)))
            results[f"{kind}, {name}"] = similarity(used, shown, order, point.descent.forward, ASKED)
    return results


def updates(model: Model, plan: Plan, shown: Shots) -> dict[str, Any]:
    """The alignment of the implicit update with the first step of gradient descent, matrix by matrix; of chance; and
    with the implicit update for another query, the most that could be expected."""
    descent = Descent(model, way("mlp"), 1.0)
    descent.step(Lesson.of(shown, range(len(shown)), model.device))
    gradient = descent.changes()
    order, queries = list(range(len(shown))), min(ASKED, len(shown.queries), 4)
    implicit = [implicit_changes(model, shown, order, q) for q in range(queries)]
    chance = random_like(gradient, plan.seed)
    return {
        "matrices": list(implicit[0]),
        "gradient": [aligned(each, gradient) for each in implicit],
        "chance": [aligned(each, chance) for each in implicit],
        "another query": [aligned(implicit[0], each) for each in implicit[1:]],
    }


def martingale(model: Model, plan: Plan, shown: Shots) -> dict[str, Any]:
    """The martingale tests on the model's continuations of digits, and on exact Bayesian ones."""
    results: dict[str, Any] = {}
    for name, sampler in (("model", by_model(model)), ("bayesian", bayesian)):
        for theta in (0.3, 0.5, 0.7):
            for ahead in (10, 40):
                generator = torch.Generator().manual_seed(plan.seed)
                observed = (torch.rand(20, generator=generator) < theta).double()
                tested = martingale_test(sampler, observed, ahead, 40, generator)
                results[f"{name}, θ = {theta:g}, {ahead} ahead"] = {
                    "t1": tested.statistics.t1,
                    "t2": list(tested.statistics.t2),
                    "t3_ratio": tested.t3_ratio,
                    "violated": tested.violated,
                }
    return results


MORE: dict[str, Callable[[Model, Plan, Shots], dict[str, Any]]] = {
    "sizes": sizes,
    "many": many,
    "attention": attention,
    "updates": updates,
    "martingale": martingale,
}
