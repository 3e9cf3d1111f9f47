"""Li et al. 2023: the stability of trained transformers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from inweights.lab.predictors import OLS, Nearest, Predictor
from inweights.lab.tasks import Linear, Sample
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._bounded import slope
from inweights.papers._papers import LI

DIMS, POINTS = 5, 16
LENGTHS = range(6, POINTS)
"""Numbers of examples above the number of dimensions: below it, and at it, least squares has no finite stability."""
NOISES = {"depth-2": 0.0, "ridge-0.5": 0.5, "ridge-1": 1.0, "ridge-2": 2.0}
"""Decoders of two layers, by the noise of their training."""
SEEDS = 5
"""Trainings of each in the zoo."""


@torch.no_grad()
def instability(model: Predictor, sample: Sample) -> list[float]:
    """For each of `LENGTHS` the mean over prompts of the largest change of the prediction for the next point if the
    label of one example changes its sign."""
    before = model.predict_prefixes(sample.xs, sample.ys)
    moved = []
    for j in range(POINTS - 1):
        flipped = sample.ys.clone()
        flipped[:, j] *= -1
        here = (model.predict_prefixes(sample.xs, flipped) - before).abs()
        moved.append(torch.where(torch.arange(POINTS) > j, here, 0.0))
    largest: Tensor = torch.stack(moved).amax(0).double().mean(0)
    return [largest[m].item() for m in LENGTHS]


def drawn(trial: Trial) -> Sample:
    """Linear functions without noise."""
    return Linear(dims=DIMS).sample(trial.draw(trial.size(256, 2048)), POINTS)


@claim("li-stability-trained", LI, "Section 3, Assumption 3.1 in experiments", needs=("depth-8",), cost=(3.6, 40))
def trained(trial: Trial) -> Measurement:
    """The stability of a trained transformer improves with the number m of examples, at least as K/m.

    Measured: the slope of the logarithm of the change of predictions against log m, where one label has the wrong sign:
    that of the most influential example, averaged over prompts.

    Control: the mean of the three nearest neighbours, an algorithm that is not stable: its most influential example
    stays as influential as it was.

    Settings: linear functions of 5 dimensions, 6 to 15 examples without noise, a decoder of 8 layers of width 40 (the
    paper: d = 20, 12 layers of width 256); 256 prompts (full: 2,048). Also measured: the slope of least squares.
    """
    sample = drawn(trial)
    lines = {
        name: instability(model, sample)
        for name, model in (("decoder", trial.trained("depth-8")), ("neighbours", Nearest()), ("least squares", OLS()))
    }
    plot = Plot("One label of the wrong sign", "examples m", "change of the prediction", LENGTHS, lines, log="xy")
    value, control, least = (slope(LENGTHS, line) for line in lines.values())
    return Measurement({"slope": (value, control)}, plot, {"least squares": least})


def middle(line: list[float]) -> float:
    """The geometric mean."""
    return torch.tensor(line, dtype=torch.float64).log().mean().exp().item()


@claim("li-stability-noise", LI, "Section 3, noisy and noiseless tasks", needs=tuple(NOISES), cost=(4.8, 50))
def noise(trial: Trial) -> Measurement:
    """Transformers that were trained with noise are more stable: the more noise, the more so.

    Measured: the change of predictions by a label of the wrong sign, that of the most influential example, relative to
    that of the model trained with the next smaller noise; where this ratio is largest. All models answer for the same
    prompts.

    Control: two trainings with the same noise and other seeds.

    Settings: linear functions of 5 dimensions, 6 to 15 examples, labels without noise; decoders of 2 layers, trained
    with noise of standard deviation 0, 0.5, 1 and 2, of width 40 and, with noise, 32 (the paper: 0 and 1 at d = 20, 12
    layers of width 256); 256 prompts (full: 2,048), geometric mean over lengths.
    """
    sample = drawn(trial)
    lines = {f"noise {noise:g}": instability(trial.trained(name), sample) for name, noise in NOISES.items()}
    moved = [middle(line) for line in lines.values()]
    ratios = [b / a for a, b in pairwise(moved)]
    other = replace(trial, seed=(trial.seed + 1) % SEEDS).trained("ridge-1")
    plot = Plot("One label of the wrong sign", "examples m", "change of the prediction", LENGTHS, lines, log="xy")
    reported = {f"noise {noise:g}": value for noise, value in zip(NOISES.values(), moved, strict=True)}
    return Measurement({"ratio": (max(ratios), middle(instability(other, sample)) / moved[2])}, plot, reported)
