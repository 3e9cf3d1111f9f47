"""Claims of the notes about two views of in-context learning, that a task is recognised or learned, in the lab. On a
language model: the papers of Min et al. and Wei et al."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors import OLS, DiscreteMMSE, Predictor
from inweights.lab.tasks import Linear, Pool
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES

DIMS, POINTS = 5, 4
"""With four examples of five dimensions, the mean square of what least squares predicts is infinite."""


def unlike_least_squares(model: Predictor, xs: Tensor, ys: Tensor) -> float:
    """The mean squared difference of predictions after 1 to 3 examples from those of least squares on the labels that
    are shown, divided by the mean square of the latter."""
    with torch.no_grad():
        answers = model.predict_prefixes(xs, ys)[:, 1:].double()
    least = OLS().predict_prefixes(xs, ys)[:, 1:].double()
    return ((answers - least).square().mean() / least.square().mean()).item()


@claim("note-lab-labels", NOTES, "004, section 1.2, in the lab", cost=(0.3, 10), needs=("depth-8",))
def lab_labels(trial: Trial) -> Measurement:
    """Task learning: a transformer really learns a new rule from its context: it follows the labels that are shown,
    also flipped, random and novel ones.

    Measured: the mean squared difference of its predictions from those of least squares on the labels that are shown,
    relative to the latter, for the kind of labels where it is largest: those of a linear function with the other sign,
    of a linear function of their own each, or the signs of a linear function.

    Control: a predictor that recognises: the posterior mean over 16 functions that it knows, to which the flipped one
    does not belong.

    Settings: a decoder of 8 layers of width 40, trained on linear functions of 5 dimensions; 1 to 3 examples, fewer
    than dimensions, so that any labels are those of a linear function; 512 prompts (full: 4,096). Also measured: the
    difference for each kind.
    """
    pool = Pool(dims=DIMS, size=16)
    draw = trial.draw(trial.size(512, 4096))
    sample = pool.sample(draw, POINTS)
    apart = Linear(dims=DIMS).sample(draw, POINTS)
    own = (sample.xs * draw.normal(POINTS, DIMS)).sum(-1)
    kinds = {"flipped": -sample.hidden["clean"], "random": own, "novel": apart.ys.sign() * DIMS**0.5}
    inputs = {"flipped": sample.xs, "random": sample.xs, "novel": apart.xs}
    model, recogniser = trial.trained("depth-8"), DiscreteMMSE(pool=pool.weights(), noise=pool.noise)
    measured, control = (
        {name: unlike_least_squares(each, inputs[name], ys) for name, ys in kinds.items()}
        for each in (model, recogniser)
    )
    return Measurement({"distance": (max(measured.values()), min(control.values()))}, reported=measured)
