"""Claims of the notes about two views of in-context learning, that a task is recognised or learned, in the lab. On a
language model: the papers of Min et al. and Wei et al."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors import OLS, DiscreteMMSE, Predictor, Zero
from inweights.lab.tasks import Linear, Pool
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers.task_diversity import pretrained

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


def relabelled(trial: Trial) -> tuple[Tensor, dict[str, Tensor]]:
    """Inputs of prompts of the pool of few tasks, and labels that are none of its tasks': with the other sign, those of
    a new linear function for each example, and the signs of a new linear function, of the same power."""
    draw, pool = trial.draw(trial.size(1024, 4096)), pretrained.pool(trial, fresh=False)
    sample = pool.sample(draw, pretrained.POINTS)
    own = (sample.xs * draw.normal(*sample.xs.shape[1:])).sum(-1) + pool.noise * draw.normal(pretrained.POINTS)
    signs = (sample.xs @ draw.normal(pool.dims, 1)).squeeze(-1).sign() * pool.dims**0.5
    return sample.xs, {"flipped": -sample.ys, "random": own, "novel": signs}


def views(trial: Trial) -> dict[str, dict[str, tuple[float, float]]]:
    """For each kind of labels and each predictor its mean squared difference from dMMSE, which recognises a task of the
    pool, and from ridge regression, which learns from the labels; in units of the difference of these two."""
    pool = pretrained.pool(trial, fresh=False)
    recogniser, learner = DiscreteMMSE(pool=pool.weights(), noise=pool.noise), pretrained.RIDGE
    predictors = pretrained.both(trial) | {"nothing": Zero()}
    inputs, kinds = relabelled(trial)
    results = {}
    for kind, ys in kinds.items():

        def answers(predictor: Predictor, ys: Tensor = ys) -> Tensor:
            with torch.no_grad():
                return predictor.predict_prefixes(inputs, ys)[:, 1:].double()

        one, two = answers(recogniser), answers(learner)
        unit = (one - two).square().mean()

        def apart(predictor: Predictor, known: Tensor, unit: Tensor = unit) -> float:
            return float((answers(predictor) - known).square().mean() / unit)

        results[kind] = {name: (apart(p, one), apart(p, two)) for name, p in predictors.items()}
    return results


@claim("note-two-views", NOTES, "004, section 1.2, in the lab", cost=(22, 200))
def two_views(trial: Trial) -> Measurement:
    """A transformer that was trained on few tasks recognises one of them, whatever the labels are; one that was trained
    on many learns from the labels that are shown, also flipped, random and novel ones.

    Measured: the mean squared difference of predictions from those of an estimator, divided by the difference of the
    two estimators, for the kind of labels where it is largest. `few`: of the decoder trained on few tasks from dMMSE,
    the posterior mean over these tasks; `many`: of that trained on many from ridge regression on the labels.

    Control: the other decoder in each case, for the kind of labels where it is smallest.

    Rival: a decoder that predicts 0 where labels are unlike those of its training, measured as the decoder is.

    Settings: the decoders of `raventos-few`: d = 2, 6 points, noise 0.5, pools of 4 tasks and new tasks for every
    prompt. Labels of a task of the pool with the other sign, of a new linear function for each example, or the signs of
    a new linear function times √2; after 1 to 5 examples; 1,024 prompts (full: 4,096). That less than half of the
    difference counts as following an estimator is our choice.
    """
    measured = views(trial)

    def of(name: str, which: int) -> list[float]:
        return [measured[kind][name][which] for kind in measured]

    quantities = {"few": (max(of("few", 0)), min(of("many", 0))), "many": (max(of("many", 1)), min(of("few", 1)))}
    reported = {
        f"{kind}: {name} from {estimator}": measured[kind][name][which]
        for kind in measured
        for name in ("few", "many")
        for which, estimator in enumerate(("dMMSE", "ridge"))
    }
    rivals = {"few": max(of("nothing", 0)), "many": max(of("nothing", 1))}
    return Measurement(quantities, reported=reported, rivals=rivals)
