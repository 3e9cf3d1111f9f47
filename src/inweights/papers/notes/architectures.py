"""Claims of the notes about other architectures (004, section 9.1), on models trained by recipes of the lab."""

from __future__ import annotations

import torch

from inweights.lab.predictors import Averaging, Predictor
from inweights.lab.tasks import Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES

RECURRENT, HYBRID, ATTENTION = ("mamba", "lstm"), ("griffin", "hybrid"), ("decoder", "relu-encoder")
REGRESSION = ("mamba-5", "hybrid-5", "griffin-5")
EXAMPLES = 10
"""Examples after which models of regression are measured, twice as many as dimensions."""


def prompts(trial: Trial, name: str) -> Sample:
    """Prompts of a recipe's task that no training has seen."""
    recipe = trial.recipe(name)
    return recipe.make_task().sample(trial.draw(trial.size(1024, 4096)), recipe.points)


@torch.no_grad()
def regression_error(trial: Trial, predictor: Predictor, sample: Sample) -> float:
    """The mean squared error after 10 to 15 examples of a linear function, in units of always answering 0."""
    answers = predictor.predict_prefixes(sample.xs, sample.ys)[:, EXAMPLES:]
    return float((answers - sample.ys[:, EXAMPLES:]).double().square().mean() / sample.xs.shape[-1])


@torch.no_grad()
def last_error(trial: Trial, name: str) -> float:
    """The error of a recipe's model at the last point, where encoders answer: a squared error in units of always
    answering 0, or a share of wrong labels in units of chance."""
    sample, model = prompts(trial, name), trial.trained(name)
    answers, wanted = model(sample.xs, sample.ys)[:, -1], sample.ys[:, -1]
    task = trial.recipe(name).make_task()
    if task.loss == "logistic":
        return 2 * float(((answers > 0) != (wanted > 0)).double().mean())
    return float((answers - wanted).double().square().mean() / task.power)


def errors(trial: Trial, task: str) -> dict[str, float]:
    """The errors of all six architectures on a task."""
    return {name: last_error(trial, f"{task}-{name}") for name in (*RECURRENT, *HYBRID, *ATTENTION)}


def of_all(*tasks: str) -> tuple[str, ...]:
    return tuple(f"{task}-{name}" for task in tasks for name in (*RECURRENT, *HYBRID, *ATTENTION))


@claim("note-recurrent-regression", NOTES, "004, section 9.1", cost=(10, 40), needs=REGRESSION)
def recurrent_regression(trial: Trial) -> Measurement:
    """State-space models and hybrids learn in context, too: each of Mamba, a hybrid with attention, and Griffin learns
    linear functions from examples.

    Measured: the largest of their three mean squared errors after 10 to 15 examples, in units of always answering 0:
    below 0.1, which is our choice.

    Control: the smallest of the errors of the same three models before their training.

    Rival: that they average labels times inputs, which is one step of gradient descent.

    Settings: the recipes `mamba-5`, `hybrid-5` and `griffin-5`, 5 dimensions, without noise; 1,024 prompts (full:
    4,096).
    """
    sample = prompts(trial, REGRESSION[0])
    own = {name: regression_error(trial, trial.trained(name), sample) for name in REGRESSION}
    untrained = [regression_error(trial, build(trial.recipe(name)).to(trial.device), sample) for name in REGRESSION]
    average = regression_error(trial, Averaging(), sample)
    return Measurement({"error": (max(own.values()), min(untrained))}, rivals={"error": average}, reported=own)


@claim("note-regression-order", NOTES, "004, section 9.1", cost=(10, 40), needs=(*REGRESSION, "lstm-5", "decoder-5"))
def regression_order(trial: Trial) -> Measurement:
    """In regression, selective state spaces and hybrids are far ahead of a recurrence without selection, an LSTM, and
    nearer to a transformer.

    Measured: the mean squared error of an LSTM after 10 to 15 examples, divided by the largest of those of Mamba, a
    hybrid and Griffin: above 2, which is our choice.

    Control: a decoder in place of the LSTM.

    Settings: as in `note-recurrent-regression`; `lstm-5` has fewer steps and a curriculum, `decoder-5` the training of
    the other three. Also measured: each of the errors.
    """
    sample = prompts(trial, REGRESSION[0])
    names = (*REGRESSION, "lstm-5", "decoder-5")
    measured = {name: regression_error(trial, trial.trained(name), sample) for name in names}
    largest = max(measured[name] for name in REGRESSION)
    return Measurement({"behind": (measured["lstm-5"] / largest, measured["decoder-5"] / largest)}, reported=measured)


@claim("note-retrieval-order", NOTES, "004, section 9.1, hybrids", cost=(10, 30), needs=of_all("retrieval"))
def retrieval_order(trial: Trial) -> Measurement:
    """Recurrences alone fall short of a transformer in retrieval; with a layer of attention among them they do not:
    Griffin and a hybrid of state spaces.

    Measured: `recurrent`: the smaller of the errors of Mamba and an LSTM, minus that of a decoder. `hybrid`: the larger
    of the errors of Griffin and a hybrid, minus that of the decoder. Squared errors in units of always answering 0; the
    bounds of a tenth are those of `park-retrieval`.

    Control: for `recurrent` the smaller of the errors of Griffin and the hybrid; for `hybrid` the larger of those of
    Mamba and the LSTM.

    Settings: values of 12 keys, 4 dimensions, one query after them and three others; 26,000 to 32,000 parameters, 4,000
    steps of 128 prompts by Adam at 3e-3 for each; measured at the last point. 1,024 prompts (full: 4,096). The encoder
    with ReLU attention is reported.

    Precondition: the decoder has learned: its error is below 0.5.
    """
    measured = errors(trial, "retrieval")
    trial.require(measured["decoder"] < 0.5, f"the decoder has an error of {measured['decoder']:.2f}")
    behind = {name: value - measured["decoder"] for name, value in measured.items()}
    recurrent, hybrid = ([behind[name] for name in group] for group in (RECURRENT, HYBRID))
    return Measurement(
        {"recurrent": (min(recurrent), min(hybrid)), "hybrid": (max(hybrid), max(recurrent))},
        plot=Plot("Retrieval", "architecture", "error", range(len(measured)), {"error": list(measured.values())}),
        reported=measured,
    )


@claim(
    "note-parity-order",
    NOTES,
    "004, section 9.1, hybrids",
    cost=(10, 30),
    needs=(*of_all("parity"), *of_all("retrieval")),
)
def parity_order(trial: Trial) -> Measurement:
    """Hybrids have the advantage of recurrences on sparse parities, which transformers learn late or not at all: both
    Griffin and a hybrid of state spaces are better than attention alone.

    Measured: the larger share of wrong labels of the two, divided by that of a decoder.

    Control: the same ratio on retrieval, where recurrence is of no use.

    Rival: that recurrence alone is what helps, whatever attention adds: an LSTM in their place.

    Settings: products of 2 of 6 signs, 19 examples; 26,000 to 32,000 parameters, 4,000 steps of 128 prompts by Adam at
    3e-3 for each. 1,024 prompts (full: 4,096).
    """
    measured = errors(trial, "parity")
    ratios, other = (
        {name: max(value, 1e-4) / max(line["decoder"], 1e-4) for name, value in line.items()}
        for line in (measured, errors(trial, "retrieval"))
    )
    value, control = (max(line[name] for name in HYBRID) for line in (ratios, other))
    return Measurement(
        {"against_decoder": (value, control)}, rivals={"against_decoder": ratios["lstm"]}, reported=measured
    )
