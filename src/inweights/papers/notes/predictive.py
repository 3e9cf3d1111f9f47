"""Claims of the notes about the distribution that a trained model predicts, and about its continuations."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

import torch
from scipy.stats import spearmanr
from torch import Tensor

from inweights.compare import Sampler, martingale_test
from inweights.lab import Draw
from inweights.lab.models import Decoder, DecoderModel
from inweights.lab.predictors import Bayesian
from inweights.lab.tasks import Bernoulli, Linear, Sample
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import NOTES

DIMS, NOISE, LENGTHS = 2, 0.5, (1, 2, 4, 8)
OBSERVED, FURTHER, THETAS = 10, 20, (0.3, 0.5, 0.7)
EXACT = Bayesian(noise=NOISE)


class Law(NamedTuple):
    """Normal distributions: means and variances, `(batch,)`."""

    mean: Tensor
    variance: Tensor

    def divergence(self, other: Law) -> Tensor:
        """Kullback and Leibler's divergence of another distribution from this one."""
        away = (self.mean - other.mean).square()
        return ((other.variance / self.variance).log() + (self.variance + away) / other.variance - 1) / 2

    def ranks(self, labels: Tensor) -> Tensor:
        """The probability of less than the label: uniform if labels are drawn from this distribution."""
        return torch.special.ndtr((labels - self.mean) / self.variance.sqrt())


def small_decoder(dims: int, outputs: int, points: int) -> DecoderModel:
    """A decoder of 2 layers of width 32, with one token for each point."""
    return DecoderModel(Decoder(layers=2, width=32, heads=2, tokens="one"), dims, outputs, points)


def predicted(model: DecoderModel, sample: Sample) -> Law:
    """The distribution that the model predicts for the last label. Its two outputs are mean and log-variance; labels
    have two columns for it, of which the second is empty."""
    out = model(sample.xs, torch.stack([sample.ys, torch.zeros_like(sample.ys)], -1))
    return Law(out[..., 0], out[..., 1].clamp(-8, 8).exp())


def distribution_model(trial: Trial) -> DecoderModel:
    """A decoder trained on the likelihood of the next label, at all points."""
    task, points = Linear(dims=DIMS, noise=NOISE), max(LENGTHS) + 1

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        sample = task.sample(draw, points)
        law = predicted(model, sample)
        return ((sample.ys - law.mean).square() / law.variance + law.variance.log()).mean() / 2

    steps = trial.size(1600, 8000)
    return fitted(trial, "distribution", lambda: small_decoder(DIMS, 2, points), loss, steps=steps)


def laws(model: DecoderModel, sample: Sample) -> tuple[Law, Law]:
    """The distributions of the last label by the model and by Bayes' rule, in float64."""
    with torch.no_grad():
        own = Law(*(each[:, -1].double() for each in predicted(model, sample)))
    mean, variance = EXACT.predict_prefixes(sample.xs, sample.ys), EXACT.predict_variance(sample.xs)
    return own, Law(mean[:, -1].double(), variance[:, -1].double())


def exchanged(sample: Sample) -> Sample:
    """The same queries after the examples of other prompts."""
    xs, ys = sample.xs.clone(), sample.ys.clone()
    xs[:, :-1], ys[:, :-1] = sample.xs[:, :-1].roll(1, 0), sample.ys[:, :-1].roll(1, 0)
    return Sample(xs, ys, {})


@claim("note-predictive", NOTES, "004, section 4.1", cost=(30, 300))
def predictive(trial: Trial) -> Measurement:
    """A trained transformer outputs a distribution that is close to the predictive posterior.

    Measured: `divergence`, that of the model's distribution from the exact one, divided by that of the distribution
    before any example; `calibration`, the largest distance of the distribution of the labels' ranks under the model
    from the uniform one (Kolmogorov and Smirnov). After 1, 2, 4 and 8 examples, on average.

    Control: the model after the examples of another prompt.

    Rival: the exact mean with a variance that depends on the number of examples alone.

    Settings: linear functions of 2 dimensions with noise 0.5; a decoder of 2 layers of width 32, trained on the
    likelihood by 1,600 steps of 64 prompts (full: 8,000); 2,048 prompts (full: 8,192). That a twentieth of the
    divergence may be left is our choice.
    """
    model, count = distribution_model(trial), trial.size(2048, 8192)
    shares: dict[str, list[float]] = {"own": [], "exchanged": [], "constant": []}
    ranks: dict[str, list[float]] = {"own": [], "exchanged": []}
    for n in LENGTHS:
        sample = Linear(dims=DIMS, noise=NOISE).sample(trial.draw(count, n), n + 1)
        own, exact = laws(model, sample)
        other, _ = laws(model, exchanged(sample))
        before = Law(torch.zeros_like(exact.mean), sample.xs[:, -1].double().square().sum(-1) + NOISE**2)
        constant = Law(exact.mean, exact.variance.mean().expand_as(exact.variance))
        base = exact.divergence(before).mean()
        for name, law in (("own", own), ("exchanged", other), ("constant", constant)):
            shares[name].append(float(exact.divergence(law).mean() / base))
        for name, law in (("own", own), ("exchanged", other)):
            ranks[name].append(from_uniform(law.ranks(sample.ys[:, -1].double())))
    left = {name: fmean(each) for name, each in shares.items()}
    quantities = {
        "divergence": (left["own"], left["exchanged"]),
        "calibration": (fmean(ranks["own"]), fmean(ranks["exchanged"])),
    }
    return Measurement(quantities, rivals={"divergence": left["constant"]})


def from_uniform(ranks: Tensor) -> float:
    """The largest distance of an empirical distribution function from the uniform one on [0, 1]."""
    ordered, n = ranks.sort().values, len(ranks)
    steps = torch.arange(n + 1, dtype=ordered.dtype) / n
    return float(torch.maximum(steps[1:] - ordered, ordered - steps[:-1]).max())


@claim("note-uncertainty", NOTES, "004, section 4.1", cost=(30, 300))
def uncertainty(trial: Trial) -> Measurement:
    """The uncertainty of a trained transformer correlates with that of Bayesian predictions.

    Measured: the rank correlation over contexts of the standard deviation that the model predicts with the exact one,
    for one query and one number of examples, so that only the examples can explain it; a mean over 1, 2, 4 and 8
    examples.

    Control: the model after the examples of another prompt.

    Settings: the decoder of `note-predictive`; the query is a unit vector; 512 prompts (full: 2,048).
    """
    model, measured = distribution_model(trial), []
    for n in LENGTHS:
        sample = Linear(dims=DIMS, noise=NOISE).sample(trial.draw(trial.size(512, 2048), 100 + n), n + 1)
        xs = sample.xs.clone()
        xs[:, -1] = torch.eye(DIMS)[0]
        sample = sample._replace(xs=xs)
        (own, exact), (other, _) = laws(model, sample), laws(model, exchanged(sample))
        measured.append([float(spearmanr(law.variance, exact.variance).statistic) for law in (own, other)])
    value, control = (fmean(column) for column in zip(*measured, strict=True))
    return Measurement({"rank_correlation": (value, control)})


@claim("note-martingale", NOTES, "004, section 4.1", cost=(36, 400))
def continued(trial: Trial) -> Measurement:
    """A transformer computes a posterior: its own continuations of exchangeable observations are those of a Bayesian.

    Measured: the share of sequences in which T1 or T2 of the martingale tests of Falck et al. 2024 lies outside of the
    interval that exact Bayesian continuations have.

    Control: the same decoder trained on sequences in which an observation equals the one before in four of five cases.

    Settings: zeros and ones with a probability from U(0, 1), 30 of them; a decoder of 2 layers of width 32, 400 steps
    of 64 prompts (full: 1,500); θ = 0.3, 0.5, 0.7, two sequences each, 10 observations, 20 more, 100 paths.
    """
    rules = [by_decoder(sequence_model(trial, exchangeable=e)) for e in (True, False)]
    value, control = (violations(trial, rule) for rule in rules)
    return Measurement({"violated": (value, control)})


def persistent(draw: Draw, points: int) -> Tensor:
    """Sequences `(batch, points)` of zeros and ones that change in one of five cases."""
    first, changes = draw.bernoulli(0.5, 1), draw.bernoulli(0.2, points - 1)
    return (torch.cat([first, changes], 1).cumsum(1) % 2).to(draw.dtype)


def sequence_model(trial: Trial, *, exchangeable: bool) -> DecoderModel:
    """A decoder that predicts the probability of the next observation."""
    points = OBSERVED + FURTHER

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        ys = Bernoulli().sample(draw, points).ys if exchangeable else persistent(draw, points)
        return (model(torch.ones_like(ys).unsqueeze(-1), ys) - ys).square().mean()

    name = "exchangeable" if exchangeable else "persistent"
    return fitted(trial, name, lambda: small_decoder(1, 1, points), loss, steps=trial.size(400, 1500))


def by_decoder(model: DecoderModel) -> Sampler:
    """The decoder as a rule that continues a sequence."""

    @torch.no_grad()
    def sampler(observed: Tensor, paths: int, steps: int, generator: torch.Generator) -> Tensor:
        ys = observed.float().expand(paths, -1)
        for _ in range(steps):
            ys = torch.cat([ys, torch.zeros(paths, 1)], 1)
            p = model(torch.ones_like(ys).unsqueeze(-1), ys)[:, -1].double()
            ys[:, -1] = (torch.rand(paths, generator=generator, dtype=torch.float64) < p).float()
        return ys[:, len(observed) :].double()

    return sampler


def violations(trial: Trial, rule: Sampler) -> list[float]:
    """1 for each sequence in which T1 or T2 is outside, else 0."""
    results = []
    for k, theta in enumerate(2 * THETAS):
        observed = (trial.draw(1, 200 + k).uniform(OBSERVED).squeeze(0) < theta).double()
        generator = torch.Generator().manual_seed(math.floor(1000 * theta) + 10 * trial.seed + k)
        results.append(float(martingale_test(rule, observed, FURTHER, 100, generator).violated))
    return results
