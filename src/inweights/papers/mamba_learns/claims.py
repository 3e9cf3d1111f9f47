"""Park et al. 2024: can Mamba learn how to learn? A comparison on tasks of in-context learning (arXiv 2402.04248)."""

from __future__ import annotations

from typing import Any

import torch

from inweights.lab.models import Learner
from inweights.lab.tasks import TASKS
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import PARK
from inweights.papers._trained_now import trained_now

MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "decoder", "layers": 2, "width": 32, "heads": 2},
    "mamba": {"kind": "mamba", "layers": 1, "width": 32},
    "hybrid": {"kind": "hybrid", "layers": 1, "width": 32, "heads": 2},
    "lstm": {"kind": "lstm", "layers": 1, "width": 56},
    "wider transformer": {"kind": "decoder", "layers": 2, "width": 36, "heads": 2},
}
TASK: dict[str, tuple[dict[str, Any], int, int]] = {
    "retrieval": ({"kind": "retrieval", "dims": 4, "pairs": 6}, 8, 6),
    "parity": ({"kind": "parity", "dims": 4, "kept": 2}, 12, 6),
    "linear": ({"kind": "linear", "dims": 2}, 9, 4),
    "outliers": ({"kind": "orthogonal-outliers", "dims": 3}, 10, 5),
}
"""The settings of a task, the points of its prompts, and the first point that is measured."""
MORE = {"retrieval": 4, "parity": 4, "linear": 10, "outliers": 10}
"""How many steps a decoder has for one of Mamba's. On linear functions it has learned nothing after four."""


def learner(trial: Trial, name: str, task: str, steps: tuple[int, int] = (100, 300)) -> Learner:
    """A model trained on a task. Models whose steps take a quarter of the time of Mamba's have more of them."""
    settings, points, _ = TASK[task]
    count = trial.size(*steps) * (1 if name in ("mamba", "hybrid") else MORE[task])
    rates = {"rate": 3e-3, "optimiser": "muon"} if "transformer" in name else {"rate": 5e-3}
    return trained_now(trial, settings, MODELS[name], points=points, steps=count, **rates)


@torch.no_grad()
def error(trial: Trial, model: Learner, task: str) -> float:
    """The mean error of a model from the first point that is measured on: a squared error in units of always answering
    0, or a share of wrong labels in units of chance."""
    settings, points, first = TASK[task]
    made = TASKS.make(settings["kind"], **{k: v for k, v in settings.items() if k != "kind"})
    sample = made.sample(trial.draw(trial.size(1024, 4096)), points)
    answers, wanted = model(sample.xs, sample.ys)[:, first:], sample.ys[:, first:]
    if made.loss == "logistic":
        return 2 * float(((answers > 0) != (wanted > 0)).double().mean())
    missed = (answers - wanted).double().square() / made.power
    counted = torch.ones_like(missed, dtype=torch.bool) if sample.scored is None else sample.scored[:, first:]
    return float(missed[counted].mean())


def errors(trial: Trial, task: str, *names: str, steps: tuple[int, int] = (100, 300)) -> dict[str, float]:
    """The errors of several models on a task."""
    return {name: error(trial, learner(trial, name, task, steps), task) for name in names}


@claim("park-retrieval", PARK, "Abstract and Section 4, vector retrieval", cost=(29, 130))
def retrieval(trial: Trial) -> Measurement:
    """State-space models fall short of transformers in tasks with retrieval.

    Measured: the squared error of Mamba, in units of always answering 0, minus that of a transformer, both trained to
    return the value of a key that occurred before.

    Control: the hybrid, with attention between the same state spaces, in place of Mamba.

    Settings: 6 pairs of vectors of 4 dimensions, two queries; 26,000 to 32,000 parameters, 100 steps of 64 prompts
    (full: 300), for the transformer four times as many, which takes as long.
    """
    measured = errors(trial, "retrieval", "transformer", "mamba", "hybrid")
    behind = [measured[name] - measured["transformer"] for name in ("mamba", "hybrid")]
    return Measurement({"behind": (behind[0], behind[1])}, reported=measured)


@claim("park-parity", PARK, "Abstract and Section 4, sparse parity", cost=(46, 250))
def parity(trial: Trial) -> Measurement:
    """State-space models outperform transformers in learning sparse parities.

    Measured: the share of wrong labels of Mamba divided by that of a transformer, after 6 to 11 examples.

    Control: another transformer, a little wider, in place of Mamba.

    Rival: recurrence of any form: an LSTM in place of Mamba.

    Settings: the product of 2 of 4 signs; 26,000 to 33,000 parameters, 100 steps of 64 prompts (full: 400), for the
    transformers and the LSTM four times as many, which takes as long.
    """
    measured = errors(trial, "parity", "transformer", "mamba", "wider transformer", "lstm", steps=(100, 400))
    ratios = {name: value / measured["transformer"] for name, value in measured.items()}
    return Measurement(
        {"against_transformer": (ratios["mamba"], ratios["wider transformer"])},
        reported=measured,
        rivals={"against_transformer": ratios["lstm"]},
    )


@claim("park-regression", PARK, "Abstract and Section 4, linear regression", cost=(20, 220))
def regression(trial: Trial) -> Measurement:
    """State-space models are about as good as transformers in standard regression.

    Measured: the squared error of Mamba divided by that of a transformer on linear functions, after 4 to 8 examples.

    Control: Mamba trained on retrieval, evaluated on retrieval beside a transformer.

    Settings: 2 dimensions; 26,000 and 28,000 parameters, 50 steps of 64 prompts (full: 300), for the transformer ten
    times as many.

    Precondition: both have learned: their errors are below half of that of always answering 0.
    """
    measured = errors(trial, "linear", "transformer", "mamba", steps=(50, 300))
    trial.require(max(measured.values()) < 0.5, f"one of them has not learned: {measured}")
    other = errors(trial, "retrieval", "transformer", "mamba", steps=(50, 300))
    ratios = [line["mamba"] / line["transformer"] for line in (measured, other)]
    return Measurement({"against_transformer": (ratios[0], ratios[1])}, reported=measured)


@claim("park-outliers", PARK, "Section 4, orthogonal outliers", cost=(22, 300))
def outliers(trial: Trial) -> Measurement:
    """State-space models outperform transformers in regression with outliers, which carry no information.

    Measured: the squared error of Mamba divided by that of a transformer on linear functions, half of whose examples
    are outliers, after 5 to 9 examples.

    Control: the same without outliers.

    Settings: 3 dimensions, outliers in a plane that is orthogonal to the weights (the control: 2 dimensions, as in
    `park-regression`); 50 steps of 64 prompts (full: 260), for the transformer ten times as many.

    Precondition: Mamba has learned: its error is below that of always answering 0 by a tenth.
    """
    measured = errors(trial, "outliers", "transformer", "mamba", steps=(50, 260))
    trial.require(measured["mamba"] < 0.9, f"Mamba has not learned: {measured}")
    other = errors(trial, "linear", "transformer", "mamba", steps=(50, 260))
    ratios = [line["mamba"] / line["transformer"] for line in (measured, other)]
    return Measurement({"against_transformer": (ratios[0], ratios[1])}, reported=measured)


@claim("park-hybrid", PARK, "Section 5, MambaFormer", cost=(47, 215))
def hybrid(trial: Trial) -> Measurement:
    """A hybrid of state spaces and attention does well wherever one of the two does, where each of them falls short
    somewhere.

    Measured: the error of the hybrid minus that of the better of Mamba and a transformer, on retrieval and on parity,
    whichever is larger.

    Control: the same for Mamba and for a transformer in place of the hybrid, whichever is smaller.

    Settings: as in `park-retrieval` and `park-parity`, with 60 steps (full: 240); errors in units of
    always answering 0, or of chance.
    """
    excess: dict[str, list[float]] = {}
    reported = {}
    for task in ("retrieval", "parity"):
        measured = errors(trial, task, "transformer", "mamba", "hybrid", steps=(60, 240))
        best = min(measured["transformer"], measured["mamba"])
        for name, value in measured.items():
            excess.setdefault(name, []).append(value - best)
            reported[f"{name}, {task}"] = value
    largest = {name: max(values) for name, values in excess.items()}
    control = min(largest["transformer"], largest["mamba"])
    return Measurement({"excess": (largest["hybrid"], control)}, reported=reported)
