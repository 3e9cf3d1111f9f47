"""A claim of the notes about the distribution that a model predicts if there are a few tasks: a mixture."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import DecoderModel
from inweights.lab.predictors import Bayesian
from inweights.lab.tasks import Pool, Sample
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import NOTES
from inweights.papers.notes.predictive import exchanged, from_uniform, small_decoder

DIMS, NOISE, SIZE, POINTS, LENGTHS = 2, 0.5, 4, 6, (1, 2, 3, 5)
REACH, STEP = 12.0, 0.1
"""Of the grid of labels on which distributions are compared."""


class Mixed(NamedTuple):
    """Mixtures of normal distributions: logarithms of weights, means and deviations, each `(batch, components)`."""

    weights: Tensor
    means: Tensor
    deviations: Tensor

    def log_density(self, labels: Tensor) -> Tensor:
        """`(batch, labels)` of `(batch, labels)`."""
        away = (labels.unsqueeze(-1) - self.means.unsqueeze(-2)) / self.deviations.unsqueeze(-2)
        each = -away.square() / 2 - self.deviations.log().unsqueeze(-2) - math.log(2 * math.pi) / 2
        return torch.logsumexp(self.weights.unsqueeze(-2) + each, -1)

    def divergence(self, other: Mixed) -> float:
        """Kullback and Leibler's divergence of another law from this one, on the grid; a mean over the batch."""
        labels = torch.arange(-REACH, REACH, STEP, dtype=torch.float64).expand(len(self.means), -1)
        own = self.log_density(labels)
        return float((own.exp() * (own - other.log_density(labels))).sum(-1).mean() * STEP)

    def ranks(self, labels: Tensor) -> Tensor:
        """The probability of less than the label: uniform if labels are drawn from this law."""
        below = torch.special.ndtr((labels.unsqueeze(-1) - self.means) / self.deviations)
        return (self.weights.exp() * below).sum(-1)


def task_of(trial: Trial) -> Pool:
    """The pool of this trial."""
    return Pool(dims=DIMS, noise=NOISE, size=SIZE, which=trial.seed)


def outputs(model: DecoderModel, sample: Sample) -> Mixed:
    """The laws that the model predicts at all points, `(batch, points, components)`. Labels are the first of as many
    columns as there are outputs; the others are empty."""
    empty = sample.ys.new_zeros(*sample.ys.shape, 3 * SIZE - 1)
    weights, means, deviations = model(sample.xs, torch.cat([sample.ys.unsqueeze(-1), empty], -1)).chunk(3, -1)
    return Mixed(weights.log_softmax(-1), means, deviations.clamp(-4, 4).exp())


def mixture_model(trial: Trial) -> DecoderModel:
    """A decoder trained on the likelihood of the next label, at all points of prompts of the pool."""
    task = task_of(trial)

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        sample = task.sample(draw, POINTS)
        laws = Mixed(*(each.flatten(0, 1) for each in outputs(model, sample)))
        return -laws.log_density(sample.ys.reshape(-1, 1)).mean()

    steps = trial.size(800, 3000)
    return fitted(trial, "pool-mixture", lambda: small_decoder(DIMS, 3 * SIZE, POINTS), loss, steps=steps)


def exact(pool: Tensor, sample: Sample, n: int) -> Mixed:
    """The law of the label at point n by Bayes' rule, if each task of the pool is as probable before any example."""
    answers = sample.xs[:, : n + 1].double() @ pool.double().mT  # (batch, n + 1, tasks)
    away = sample.ys[:, :n].double().unsqueeze(-1) - answers[:, :n]
    weights = (-away.square() / (2 * NOISE**2)).sum(1).log_softmax(-1)
    return Mixed(weights, answers[:, n], torch.full_like(weights, NOISE))


def normal_prior(sample: Sample, n: int) -> Mixed:
    """The law of the label at point n by Bayes' rule, if w is normal: that of ridge regression."""
    rule = Bayesian(noise=NOISE)
    mean, variance = rule.predict_prefixes(sample.xs, sample.ys), rule.predict_variance(sample.xs)
    one = mean[:, n : n + 1].double()
    return Mixed(torch.zeros_like(one), one, variance[:, n : n + 1].double().sqrt())


@claim("note-predictive-pool", NOTES, "004, section 4.1", cost=(25, 200))
def predictive_pool(trial: Trial) -> Measurement:
    """Trained on a few tasks, a transformer outputs a distribution that is close to the predictive posterior, which is
    a mixture over the tasks.

    Measured: `divergence`, that of the model's distribution from the exact one, divided by that of the exact one before
    any example; `calibration`, the largest distance of the distribution of the labels' ranks under the model from the
    uniform one (Kolmogorov and Smirnov). After 1, 2, 3 and 5 examples, on average.

    Control: the model after the examples of another prompt.

    Rival: the exact distribution for a normal prior, that of ridge regression.

    Settings: pools of 4 linear functions of 2 dimensions, noise 0.5; a decoder of 2 layers of width 32 that outputs a
    mixture of 4 normal distributions, trained on the likelihood by 800 steps of 64 prompts (full: 3,000); 1,024 prompts
    (full: 2,048). Divergences are sums over a grid of labels with a step of 0.1. That a quarter of the divergence
    may be left is our choice (a twentieth in `note-predictive`, after a longer training).
    """
    task, model = task_of(trial), mixture_model(trial)
    sample = task.sample(trial.draw(trial.size(1024, 2048)), POINTS)
    shares: dict[str, list[float]] = {"own": [], "exchanged": [], "ridge": []}
    ranks: dict[str, list[float]] = {"own": [], "exchanged": []}
    for n in LENGTHS:
        shown = Sample(sample.xs[:, : n + 1], sample.ys[:, : n + 1], {})
        known = exact(task.weights(), shown, n)
        before = known._replace(weights=torch.full_like(known.weights, -math.log(SIZE)))
        laws = {"ridge": normal_prior(shown, n)}
        for name, seen in (("own", shown), ("exchanged", exchanged(shown))):
            laws[name] = Mixed(*(each[:, n].double() for each in outputs(model, seen)))
            ranks[name].append(from_uniform(laws[name].ranks(shown.ys[:, n].double())))
        base = known.divergence(before)
        for name, law in laws.items():
            shares[name].append(known.divergence(law) / base)
    left, off = ({name: fmean(each) for name, each in one.items()} for one in (shares, ranks))
    quantities = {"divergence": (left["own"], left["exchanged"]), "calibration": (off["own"], off["exchanged"])}
    reported = {f"divergence after {n}": share for n, share in zip(LENGTHS, shares["own"], strict=True)}
    return Measurement(quantities, reported=reported, rivals={"divergence": left["ridge"]})
