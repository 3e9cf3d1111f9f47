"""Bai et al. 2023: one transformer for regression and for classification."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import Draw
from inweights.lab.models import Decoder, DecoderModel
from inweights.lab.predictors import OLS, LogisticPredictor
from inweights.lab.tasks import Linear, Sample, Sign
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import BAI

DIMS, POINTS = 2, 9
TASKS = {"regression": Linear(dims=DIMS, noise=0.5), "classification": Sign(dims=DIMS)}


def build() -> DecoderModel:
    """A decoder of 3 layers of width 48, with one token for each point."""
    return DecoderModel(Decoder(layers=3, width=48, heads=4, tokens="one"), DIMS, 1, POINTS)


def both(trial: Trial) -> DecoderModel:
    """A decoder trained on as many prompts of both kinds: squared loss for one, logistic loss for the other."""

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        one, two = (task.sample(draw, POINTS) for task in TASKS.values())
        answers = model(torch.cat([one.xs, two.xs]), torch.cat([one.ys, two.ys]))
        squared = (answers[: len(one.xs)] - one.hidden["clean"]).square().mean() / DIMS
        return squared + F.binary_cross_entropy_with_logits(answers[len(one.xs) :], (two.ys > 0).float())

    return fitted(trial, "two-losses", build, loss, steps=trial.size(1000, 4000), batch=32, rate=6e-3)


def errors(sample: Sample, answers: Tensor, kind: str) -> float:
    """The mean squared error of the last label, or the share of wrong signs."""
    if kind == "regression":
        return float((answers - sample.ys[:, -1]).square().mean())
    return float(((answers > 0) != (sample.ys[:, -1] > 0)).double().mean())


@claim("bai-two-losses", BAI, "Section 6, Figure 4c", cost=(38, 400))
@torch.no_grad()
def two_losses(trial: Trial) -> Measurement:
    """One transformer does as well as least squares on regression, and as well as logistic regression on
    classification.

    Measured: its mean squared error divided by that of least squares on linear functions with noise, and its share of
    wrong labels divided by that of logistic regression on signs, both after the last example.

    Control: the decoder before its training.

    Settings: d = 2, 8 examples, noise 0.5 (the paper: d = 20, 40 examples); a decoder of 3 layers of width 48, 1,000
    steps of 32 prompts of each kind (full: 4,000; the paper: 12 layers, 300,000 of 64). 2,048 prompts (full: 8,192).
    """
    with torch.enable_grad():
        model = both(trial)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        untrained = build().to(trial.device)
    best = {"regression": OLS(), "classification": LogisticPredictor()}
    quantities = {}
    for step, (kind, task) in enumerate(TASKS.items()):
        sample = task.sample(trial.draw(trial.size(2048, 8192), step), POINTS)
        own, control, known = (
            errors(sample, p.predict_prefixes(sample.xs, sample.ys)[:, -1], kind)
            for p in (model, untrained, best[kind])
        )
        quantities[kind] = (own / known, control / known)
    return Measurement(quantities)
