"""Claims of the notes about trained decoders beside gradient descent: over the context's length, and over depth."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from inweights.lab.predictors import GD, OLS, Predictor
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES

DIMS, POINTS = 5, 16
LENGTHS = range(1, POINTS)
DEPTHS = (1, 2, 4, 8)
RATES = [0.05 * 1.15**j for j in range(25)]
"""Of gradient descent on the mean over examples, up to 1.4, beyond which it diverges on some prompts."""


def drawn(trial: Trial) -> Sample:
    """Linear functions without noise, float64."""
    return Linear(dims=DIMS).sample(trial.draw(trial.size(256, 2048), dtype=torch.float64), POINTS)


@torch.no_grad()
def predicted(model: Predictor, sample: Sample) -> Tensor:
    """Predictions at every point, `(batch, points)`; models compute in float32."""
    return model.predict_prefixes(sample.xs.float(), sample.ys.float()).double()


def errors(answers: Tensor, sample: Sample) -> Tensor:
    """The mean squared error after 1, 2, … 15 examples, divided by d: `(15,)`."""
    return (answers - sample.ys).square().mean(0)[1:] / DIMS


def descent_errors(sample: Sample, rate: float) -> Tensor:
    """The mean squared error of gradient descent on all 15 examples after 1, 2, … 15 steps, divided by d: `(15,)`."""
    X, y = sample.xs[:, :-1], sample.ys[:, :-1, None]
    S, b = X.mT @ X / X.shape[1], X.mT @ y / X.shape[1]
    w, results = torch.zeros_like(b), []
    for _ in LENGTHS:
        w = w + rate * (b - S @ w)
        results.append(((sample.xs[:, -1] * w.squeeze(-1)).sum(-1) - sample.ys[:, -1]).square().mean() / DIMS)
    return torch.stack(results)


def unlike(curve: Tensor, descents: Sequence[Tensor]) -> float:
    """The largest difference of logarithms of a curve from that of descent, at the closest rate."""
    logs = curve.clamp(min=1e-30).log()  # the rounding of least squares
    return min((logs - descent.log()).abs().max().item() for descent in descents)


@claim("note-length-descent", NOTES, "004, section 2.3", cost=(0.4, 15), needs=("depth-8",))
def length_descent(trial: Trial) -> Measurement:
    """As the context grows, the error of in-context learning follows a pattern like that of the convergence of gradient
    descent.

    Measured: the largest difference of the logarithms of two errors: of a decoder after n examples, and of gradient
    descent after n steps on all examples, n = 1 … 15, at the rate at which the two are closest. The note states no
    number: that similar means a factor below 2 at each n is our choice.

    Control: the decoder before its training.

    Rival: least squares after n examples: that errors fall with the length for any good algorithm.

    Settings: linear functions of 5 dimensions without noise, a decoder of 8 layers of width 40, 25 rates from 0.05 to
    1.4; 256 prompts (full: 2,048).
    """
    sample = drawn(trial)
    descents = [descent_errors(sample, rate) for rate in RATES]
    curves = {
        "decoder": errors(predicted(trial.trained("depth-8"), sample), sample),
        "before its training": errors(predicted(build(trial.recipe("depth-8")), sample), sample),
        "least squares": errors(OLS().predict_prefixes(sample.xs, sample.ys), sample),
    }
    value, control, rival = (unlike(curve, descents) for curve in curves.values())
    best = min(descents, key=lambda d: unlike(curves["decoder"], [d]))
    lines = {name: curves[name].tolist() for name in list(curves)[:2]} | {"descent, n steps": best.tolist()}
    plot = Plot("Error over the length", "examples, or steps", "mean squared error / d", LENGTHS, lines, log="y")
    return Measurement({"log_ratio": (value, control)}, plot, rivals={"log_ratio": rival})


def from_least_squares(answers: Tensor, sample: Sample) -> float:
    """The mean squared distance from the predictions of least squares after d to 15 examples, divided by d."""
    least = OLS().predict_prefixes(sample.xs, sample.ys)
    return (answers - least)[:, DIMS:].square().mean().item() / DIMS


@claim("note-depth-ols", NOTES, "004, section 2.4", cost=(1.7, 20), needs=tuple(f"depth-{d}" for d in DEPTHS))
def depth_ols(trial: Trial) -> Measurement:
    """Several layers implement an approximation of Newton's method: they come closer to the least-squares solution than
    as many steps of gradient descent.

    Measured: the mean squared distance of the predictions of a decoder of K layers from those of least squares, divided
    by that of K steps of gradient descent at the best rate; at the depth where this ratio is largest.

    Control: the decoders before their training, at the depth where the ratio is smallest.

    Settings: linear functions of 5 dimensions without noise, 5 to 15 examples, decoders of 1, 2, 4 and 8 layers of
    width 40, the best of 25 rates from 0.05 to 1.4 for each K; 256 prompts (full: 2,048). Also measured: the distance
    of each depth.
    """
    sample = drawn(trial)
    descent = [
        min(
            from_least_squares(GD(rate=rate, steps=depth).predict_prefixes(sample.xs, sample.ys), sample)
            for rate in RATES
        )
        for depth in DEPTHS
    ]
    lines = {
        "decoder": [from_least_squares(predicted(trial.trained(f"depth-{d}"), sample), sample) for d in DEPTHS],
        "before its training": [
            from_least_squares(predicted(build(trial.recipe(f"depth-{d}")), sample), sample) for d in DEPTHS
        ],
        "gradient descent": descent,
    }
    plot = Plot("Distance to least squares", "layers, or steps", "squared difference / d", DEPTHS, lines, log="xy")
    ours, untrained = ([a / b for a, b in zip(lines[name], descent, strict=True)] for name in list(lines)[:2])
    reported = {f"distance of {d} layers": v for d, v in zip(DEPTHS, lines["decoder"], strict=True)}
    return Measurement({"against_gd": (max(ours), min(untrained))}, plot, reported)
