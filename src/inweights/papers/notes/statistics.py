"""Claims of the notes about what the state of a learner holds of a context: probes of the sufficient statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab import after_examples, read_linearly, states
from inweights.lab.models import Learner
from inweights.lab.predictors import counts, grams, moments
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES

DIMS, POINTS, EXAMPLES = 5, 16, 10
FITTED = 3 / 4
"""The share of prompts that probes are fitted to; the others are measured."""


def explained(features: Tensor, targets: Tensor) -> float:
    """R² of a linear probe on prompts that it was not fitted to, the mean over targets; at least 0."""
    cut = int(FITTED * len(features))
    missed = read_linearly(features[:cut], targets[:cut], features[cut:]) - targets[cut:].double()
    return max(0.0, float(1 - (missed.square().mean(0) / targets[cut:].double().var(0, correction=0)).mean()))


def statistics(sample: Sample, examples: int) -> dict[str, Tensor]:
    """Xᵀy and the different entries of XᵀX after some examples, divided by their number: `(batch, …)`."""
    gram = grams(sample.xs)[:, examples] / examples
    row, column = torch.triu_indices(DIMS, DIMS)
    return {"moments": moments(sample.xs, sample.ys)[:, examples] / examples, "gram": gram[:, row, column]}


def decoder_readings(model: Learner, sample: Sample, random: torch.Generator) -> dict[str, float]:
    """R² of each statistic at the best layer and the better of two readings: the state at the query, or the mean of the
    states at all examples. `count` is the number of examples, from the states at all queries."""
    layers = states(model, sample.xs, sample.ys)  # (layers, batch, points, width)
    seen = [h for layer in layers for h in (layer[:, EXAMPLES], layer[:, 1 : EXAMPLES + 1].mean(1))]
    results = {name: max(explained(h, target) for h in seen) for name, target in statistics(sample, EXAMPLES).items()}
    n = counts(sample.xs).expand(len(sample.xs), -1)[:, 1:].reshape(-1, 1)
    some = torch.randperm(len(n), generator=random)[:6000]
    results["count"] = max(explained(layer[:, 1:].flatten(0, 1)[some], n[some]) for layer in layers)
    return results


@claim("note-statistics", NOTES, "004, section 4.2", cost=(6, 20), needs=("ridge-0.5",))
@torch.no_grad()
def kept_statistics(trial: Trial) -> Measurement:
    """What a transformer encodes of a context are the sufficient statistics of the posterior: XᵀX, Xᵀy and the number
    of examples can be read from its states.

    Measured: R² of linear probes, on prompts that they were not fitted to, at the best layer: for Xᵀy and for XᵀX after
    10 examples, in the state at the query or in the mean of the states at the examples, whichever is better, above 0.5;
    for the number of examples, in the states at all queries, above 0.9. The bounds are our choice.

    Control: the untrained decoder.

    Settings: `ridge-0.5`, d = 5, noise 0.5; 4,096 prompts (full: 8,192), three quarters to fit ridge regressions.
    """
    sample = Linear(dims=DIMS, noise=0.5).sample(trial.draw(trial.size(4096, 8192)), POINTS)
    value, control = (
        decoder_readings(model, sample, trial.generator())
        for model in (trial.trained("ridge-0.5"), build(trial.recipe("ridge-0.5")).to(trial.device))
    )
    return Measurement({name: (value[name], control[name]) for name in value})


@claim("note-statistics-state", NOTES, "004, section 4.2", cost=(6, 20), needs=("lstm-5",))
@torch.no_grad()
def carried_statistics(trial: Trial) -> Measurement:
    """A learner that has to carry a context in a state of fixed size carries its sufficient statistics: XᵀX and Xᵀy can
    be read from the state of an LSTM after the examples.

    Measured: R² of linear probes for Xᵀy and for XᵀX after 10 examples, on prompts that they were not fitted to, above
    0.7, which is our choice: the features are the hidden and the cell states of all layers after the last label.

    Control: the untrained LSTM.

    Settings: `lstm-5`, 4 layers of width 32, d = 5, without noise; 4,096 prompts (full: 8,192), three quarters to fit
    ridge regressions. Also measured: both after 5 examples.
    """
    sample = Linear(dims=DIMS).sample(trial.draw(trial.size(4096, 8192)), POINTS)
    models = trial.trained("lstm-5"), build(trial.recipe("lstm-5")).to(trial.device)

    def read(model: Learner, examples: int) -> dict[str, float]:
        state = after_examples(model, sample.xs[:, :examples], sample.ys[:, :examples])
        return {name: explained(state, target) for name, target in statistics(sample, examples).items()}

    value, control = (read(model, EXAMPLES) for model in models)
    early = read(models[0], DIMS)
    return Measurement(
        {name: (value[name], control[name]) for name in value},
        reported={f"{name} after {DIMS} examples": r for name, r in early.items()},
    )
