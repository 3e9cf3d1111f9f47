"""Shen et al. 2024: in-context learning is accurate with few demonstrations, gradient descent needs many."""

from __future__ import annotations

import torch

from inweights.compare import first, in_context, trained_on
from inweights.compare import shots as draw_shots
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._demonstrated import NEEDS, able, drawn, given, stored
from inweights.papers._papers import SHEN

EIGHT = 8


@claim("shen-accuracy", SHEN, "Section 5: accuracy with 8 demonstrations", cost=(34, 950), needs=NEEDS)
def accuracy(trial: Trial) -> Measurement:
    """With 8 demonstrations, in-context learning is more accurate than gradient descent.

    Measured: the accuracy over the labels, in-context less gradient descent at its best epoch and rate.

    Control: in-context learning in another order in place of gradient descent.

    Settings: SmolLM2-135M; past tense, plurals and, in full, SST-2; 16 queries (full: 100); Adam in batches of 8, rates
    1e-5 and 1e-4, 3 epochs (full: 10), a checkpoint each.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    model, shown = given(trial, EIGHT, trial.size(16, 100))
    both = in_context(model, shown, drawn(trial, EIGHT, 2))
    able(trial, model, shown, both)
    one, other = (float((shown.labels[p[:, shown.labels].argmax(-1)] == shown.right).double().mean()) for p in both)
    epochs = trial.size(3, 10)

    def descent() -> dict[str, list[float]]:
        result = trained_on(model, shown, (1e-5, 1e-4), epochs)
        return {key: [f[key] for f in result] for key in ("test", "train")}

    points = stored("shen-eight", trial, descent)
    return Measurement(
        {"gain": (one - max(points["test"]), one - other)},
        reported={"in context": one, "descent, best": max(points["test"]), "descent, training": max(points["train"])},
    )


@claim("shen-many", SHEN, "Section 5: from 8 to 512 demonstrations", cost=(215, 8000), needs=NEEDS)
def many(trial: Trial) -> Measurement:
    """Gradient descent needs many demonstrations: with 512 it is more accurate than with 8.

    Measured: the accuracy over the labels at the best epoch and rate with many demonstrations, less that with 8.

    Control: as many demonstrations with each other's labels.

    Settings: SmolLM2-135M, SST-2; 16 demonstrations and 16 queries (full: 512 and 100); Adam in batches of 8, rates
    1e-5 and 5e-5, 1 epoch of all, or as many steps of the eight. The paper reports 0.49 with 8 and 0.75 with 512.

    Precondition: the model can learn the task: with many demonstrations it is right in more than 60 of 100 cases on
    those demonstrations.
    """
    model = trial.language_model("float32")
    count = trial.size(16, 512)
    shown = draw_shots(model, "sst2", count, trial.size(16, 100), trial.seed)
    rates = (1e-5, 5e-5)

    def measure() -> dict[str, list[float]]:
        sets = {
            "many": (shown, 1),
            "eight": (first(shown, EIGHT), count // EIGHT),
            "wrong": (shown.relabelled(torch.Generator().manual_seed(trial.seed)), 1),
        }
        results = {name: trained_on(model, some, rates, epochs) for name, (some, epochs) in sets.items()}
        return {
            f"{name} {key}": [f[key] for f in points] for name, points in results.items() for key in ("test", "train")
        }

    results = stored("shen-many", trial, measure)
    trial.require(max(results["many train"]) > 0.6, "SmolLM2 does not learn the reviews that it is trained on")
    best = {name: max(results[f"{name} test"]) for name in ("many", "eight", "wrong")}
    gap = {f"{name}: training less test": max(results[f"{name} train"]) - best[name] for name in ("many", "eight")}
    return Measurement(
        {"gain": (best["many"] - best["eight"], best["wrong"] - best["eight"])},
        reported=best | gap,
    )
