"""A claim of the notes about one model that follows several algorithms, each in its own kind of context."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import Decoder, DecoderModel
from inweights.lab.predictors import KernelRidge
from inweights.lab.tasks import Kernel, Linear, Sample
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import NOTES
from inweights.papers.notes.selection import Answers, apart, huber, last, linear

POINTS, LENGTH, NOISE, OUTLIERS = 16, 0.5, 0.1, 5.0
KINDS = ("straight", "curved", "noisy", "outliers")
PENALTIES = [2.0**j for j in range(-10, 5)]


def contexts(kind: str, draw: Draw) -> Sample:
    """Prompts of one kind, of one dimension: lines with little noise, smooth functions, lines with noise of deviation
    1, and lines with little noise and, in one of five labels, an outlier."""
    if kind == "curved":
        return Kernel(dims=1, length=LENGTH, noise=NOISE).sample(draw, POINTS)
    sample = Linear(dims=1, noise=1.0 if kind == "noisy" else NOISE).sample(draw, POINTS)
    if kind == "outliers":
        far = OUTLIERS * draw.normal(POINTS) * draw.bernoulli(0.2, POINTS)
        sample = sample._replace(ys=sample.ys + far)
    return sample


def curve(sample: Sample, penalty: float) -> Tensor:
    """The predictions of kernel regression with the covariance of the smooth functions."""
    return last(KernelRidge(penalty=penalty, scale=LENGTH), sample)


def one_model(trial: Trial) -> DecoderModel:
    """A decoder trained on all kinds of contexts, on labels without noise."""

    def build() -> DecoderModel:
        return DecoderModel(Decoder(layers=3, width=32, heads=4, tokens="one"), 1, 1, POINTS)

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        samples = [contexts(kind, draw) for kind in KINDS]
        kinds = draw.integers(len(KINDS))
        each = torch.arange(len(kinds), device=kinds.device)
        xs, ys = (torch.stack([getattr(s, name) for s in samples])[kinds, each] for name in ("xs", "ys"))
        clean = torch.stack([s.hidden["clean"] for s in samples])[kinds, each]
        return (model(xs, ys) - clean).square().mean()

    return fitted(trial, "one-model", build, loss, steps=trial.size(800, 4000))


@claim("note-one-model", NOTES, "004, section 5.1", cost=(36, 400))
def selects(trial: Trial) -> Measurement:
    """One transformer follows different algorithms by its context: linear regression on linear patterns, kernel
    regression on others, and a robust estimator where there is much noise.

    Measured: the mean squared difference of a decoder's predictions from those of the named algorithm, divided by that
    from another one: `straight`, lines against kernel regression on lines; `curved`, kernel regression against lines on
    smooth functions; `outliers`, Huber's regression against lines where one label of five is an outlier.

    Control: the same ratio on contexts of another kind: smooth functions, lines, and lines with normal noise of
    deviation 1.

    Settings: one dimension, 15 examples; slopes from N(0, 1), a Gaussian process of length 0.5, noise 0.1, outliers of
    deviation 5. All algorithms use the closest penalty of 2⁻¹⁰, … 2⁴; Huber's threshold is 1.345 times 0.1. A decoder
    of 3 layers of width 32, trained on all kinds, 800 steps of 64 prompts (full: 4,000). 512 prompts (full: 2,048).
    """
    model, count = one_model(trial), trial.size(512, 2048)
    algorithms: dict[str, Answers] = {"line": linear, "curve": curve, "robust": huber(NOISE)}
    away: dict[str, dict[str, float]] = {}
    for step, kind in enumerate(KINDS):
        sample = contexts(kind, trial.draw(count, step))
        own = last(model, sample)
        away[kind] = {name: apart(own, answers, sample, PENALTIES) for name, answers in algorithms.items()}
    plan = {
        "straight": ("line", "curve", "curved"),
        "curved": ("curve", "line", "straight"),
        "outliers": ("robust", "line", "noisy"),
    }
    quantities = {
        kind: (away[kind][one] / away[kind][two], away[elsewhere][one] / away[elsewhere][two])
        for kind, (one, two, elsewhere) in plan.items()
    }
    reported = {f"{kind}: {name}": d for kind, each in away.items() for name, d in each.items()}
    return Measurement(quantities, reported=reported)
