"""Li et al. 2023: trained transformers beside the best algorithm for their task: unequal weights, dynamical systems."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors import Predictor, Ridge, WeightedRidge
from inweights.lab.tasks import Dynamics, Hetero, Sample
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import LI

DIMS, NOISE = 5, 0.5
PENALTIES = [2.0**j for j in range(-9, 6)]


@torch.no_grad()
def errors(model: Predictor, sample: Sample) -> Tensor:
    """The mean squared error against labels without noise after 1, 2, … examples, `(points − 1,)`."""
    answers = model.predict_prefixes(sample.xs, sample.ys)
    return (answers - sample.hidden["clean"]).double().square().mean(0)[1:]


def ratio(one: Tensor, other: Tensor) -> float:
    """The geometric mean over lengths of the ratio of two curves."""
    return (one / other).log().mean().exp().item()


def best_ridge(sample: Sample) -> Ridge:
    """The ridge regression with the penalty of the least error on these prompts, over all lengths."""
    return min((Ridge(penalty=p) for p in PENALTIES), key=lambda r: errors(r, sample).log().mean().item())


@claim("li-hetero", LI, "Section 5, linear regression with a covariance prior", cost=(2.4, 20), needs=("hetero-5",))
def hetero(trial: Trial) -> Measurement:
    """If weights have unequal spread, w ~ N(0, Σ), in-context learning does as well as the Bayes-optimal weighted ridge
    regression, (XᵀX + σ² Σ⁻¹)⁻¹ Xᵀy.

    Measured: the ratio of the decoder's error to that of weighted ridge regression, against labels without noise;
    geometric mean over 1 to 15 examples.

    Control: the best ridge regression with one penalty in place of the decoder.

    Settings: Σ = diag(1, 1/4, 1/9, …), 5 dimensions, noise 0.5, a decoder of 2 layers of width 32 (the paper: d = 20,
    12 layers of width 256); 512 prompts (full: 8,192).
    """
    task = Hetero(dims=DIMS, noise=NOISE)
    shown, sample = (task.sample(trial.draw(trial.size(512, 8192), step), 16) for step in (1, 0))
    curves = {
        "decoder": errors(trial.trained("hetero-5"), sample),
        "ridge": errors(best_ridge(shown), sample),
        "weighted ridge": errors(WeightedRidge(prior=task.variances, noise=NOISE), sample),
    }
    lines = {name: curve.tolist() for name, curve in curves.items()}
    plot = Plot("Weights of unequal spread", "examples", "mean squared error", range(1, 16), lines, log="y")
    value, control = (ratio(curves[name], curves["weighted ridge"]) for name in ("decoder", "ridge"))
    return Measurement({"against_weighted": (value, control)}, plot)


@claim("li-dynamics", LI, "Section 5, linear dynamical systems", cost=(2.4, 20), needs=("dynamics-5",))
def dynamics(trial: Trial) -> Measurement:
    """On linear dynamical systems, whose examples depend on each other, in-context learning does as well as ridge
    regression on the states so far.

    Measured: the ratio of the decoder's error to that of ridge regression at its best penalty, against the expected
    next observation; geometric mean over 1 to 30 states.

    Control: ridge regression that sees the first half of the states alone, in place of the decoder.

    Settings: systems of 5 dimensions with spectral radius 0.9 and noise 0.1, one number observed, a decoder of 2 layers
    of width 32 (the paper: 12 layers of width 256); 512 prompts (full: 8,192); the penalty is chosen on other prompts.
    """
    task = Dynamics(dims=DIMS)
    shown, sample = (task.sample(trial.draw(trial.size(512, 8192), step), 31) for step in (1, 0))
    ridge = best_ridge(shown)
    curves = {"decoder": errors(trial.trained("dynamics-5"), sample), "ridge": errors(ridge, sample)}
    curves["half of the states"] = halved(ridge, sample)
    lines = {name: curve.tolist() for name, curve in curves.items()}
    plot = Plot("Linear dynamical systems", "states", "mean squared error", range(1, 31), lines, log="y")
    value, control = (ratio(curves[name], curves["ridge"]) for name in ("decoder", "half of the states"))
    return Measurement({"against_ridge": (value, control)}, plot)


def halved(ridge: Ridge, sample: Sample) -> Tensor:
    """The errors of ridge regression that sees the first ⌊n/2⌋ of n examples alone, `(points − 1,)`."""
    weights = ridge.weights(sample.xs, sample.ys)[:, torch.arange(sample.xs.shape[1]) // 2]
    answers = (weights * sample.xs).sum(-1)
    return (answers - sample.hidden["clean"]).double().square().mean(0)[1:]
