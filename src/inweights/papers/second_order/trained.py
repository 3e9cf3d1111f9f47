"""Fu et al. 2023: transformers learn higher-order optimisation methods. Claims about trained models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import read_linearly, states
from inweights.lab.models import Learner
from inweights.lab.predictors import Newton, counts
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import FU
from inweights.papers.second_order.claims import descended

RATE = 0.03
"""The rate of gradient descent on the sum over examples. The paper's is 0.01 for d = 20 and 40 examples, where the
largest eigenvalue of XᵀX is about (√40 + √20)² = 116; for 5 and 15 it is 37, and 0.01 · 116/37 is 0.03."""
NEWTON = range(31)
DESCENT = sorted({math.ceil(1.15**j) for j in range(83)})  # up to about 100,000


@claim("fu-steps-per-layer", FU, "Section 4.2, Figure 3", needs=("depth-8", "lstm-5"), cost=(3.6, 60))
def steps_per_layer(trial: Trial) -> Measurement:
    """Each of the middle layers of a trained transformer advances by several iterations of Newton's method.

    Measured: the number of Newton steps per layer in the middle half of the layers: those whose errors are most similar
    to the errors of a layer's read-out.

    Control: an LSTM, which hardly advances.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40 (the paper: d = 20, 12 layers, of which 3 to 9 make
    about 3 steps each), an LSTM of 4 layers of width 32; layers 2 to 6 and 1 to 3 are their middle halves. A linear
    read-out per layer, fitted here on other prompts; similarity is the cosine of a prompt's errors after 1 to 15
    examples. Also measured: R² of a straight line through the steps of all layers, and that of a line through the
    logarithm of the layer, which is nearly as high, so that R² decides nothing.
    """
    models = trial.trained("depth-8"), trial.trained("lstm-5"), build(trial.recipe("depth-8")).to(trial.device)
    given = paths(trial)
    ours, lstm, untrained = (matched_steps(given, model) for model in models)
    layers = list(range(1, len(ours["newton"]) + 1))
    lines = {"decoder": ours["newton"], "before its training": untrained["newton"]}
    plot = Plot("Newton's steps that a layer is most like", "layer", "steps", layers, lines)
    reported = {
        "steps of the last layer": ours["newton"][-1],
        "likeness of the last layer": ours["newton likeness"][-1],
        "R²": r_squared(ours["newton"]),
        "LSTM, R²": r_squared(lstm["newton"]),
        "a logarithm, R²": r_squared([math.log(n) for n in layers]),
        "paper, steps per layer": 3.0,
    }
    gained = [middle_slope(steps["newton"]) for steps in (ours, lstm)]
    return Measurement({"steps_per_layer": (gained[0], gained[1])}, plot=plot, reported=reported)


@claim("fu-exponential", FU, "Section 4.2, Figure 3", needs=("depth-8", "lstm-5"), cost=(5, 85))
def exponential(trial: Trial) -> Measurement:
    """Gradient descent needs exponentially more steps to match each further layer.

    Measured: the number of gradient steps with the errors most similar to those of the last layer's read-out, divided
    by that of the first layer. `unexplained`: the share of the variance of the logarithms of the steps of all layers
    that a straight line over the layers leaves; 1 if all are the same. Of steps that grow as a power of the layer it is
    0.08 for 8 layers, whatever the power, and the bound is half of that.

    Control: an LSTM, in which layers are no such steps. Of `unexplained`: the steps of Newton's method, which by the
    paper grow by about the same number in each layer, in place of those of gradient descent.

    Rival: steps that grow as a power of the layer: the share that a straight line over the logarithms of the layers
    leaves.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40, an LSTM of 4 layers of width 32; gradient descent
    on the sum over examples at a rate of 0.03 (the paper's 0.01 at d = 20, scaled by the largest eigenvalue), up to
    100,000 steps in ratios of 1.15; read-outs and similarity as for Newton's steps. One gradient step for each layer
    would have a ratio of 8. At this rate descent diverges on about one prompt in several thousand, where its errors are
    bounded by 1e100.
    """
    models = trial.trained("depth-8"), trial.trained("lstm-5"), build(trial.recipe("depth-8")).to(trial.device)
    given = bounded(paths(replace(trial, seed=trial.seed + 10)))  # prompts that no other run has seen
    decoder, lstm, untrained = (matched_steps(given, model) for model in models)
    ours, theirs = decoder["gd"], lstm["gd"]
    layers = list(range(1, len(ours) + 1))
    lines = {"decoder": ours, "before its training": untrained["gd"]}
    plot = Plot("Gradient steps that a layer is most like", "layer", "steps", layers, lines, log="y")
    return Measurement(
        {
            "steps_ratio": (ours[-1] / ours[0], theirs[-1] / theirs[0]),
            "unexplained": (unexplained(ours, layers), unexplained(decoder["newton"], layers)),
        },
        plot=plot,
        reported={
            "steps of the last layer": ours[-1],
            "of the LSTM's": theirs[-1],
            "paper, first": 1.0,
            "paper, last": 4096.0,
        },
        rivals={"unexplained": unexplained(ours, [math.log(n) for n in layers])},
    )


@claim("fu-ill-conditioned", FU, "Section 4.3, Figure 4", needs=("conditioned-6",), cost=(1.2, 8))
def ill_conditioned(trial: Trial) -> Measurement:
    """On ill-conditioned inputs, a transformer is about as good as Newton's method, and gradient descent is not.

    Measured: the squared error of a decoder after 2d examples over that of 21 steps of iterative Newton, as a ratio
    that may be neither too large nor too small.

    Control: 2,000 steps of gradient descent in place of the decoder, as many as the paper gives it.

    Settings: d = 6 (the paper: 20), half of the eigenvalues of Σ are 100 times the others, its axes are drawn anew for
    each prompt, trace Σ = d, weights from N(0, I); a decoder of 8 layers of width 48 (12 of 256). Gradient descent on
    the sum over examples at the paper's rate of 0.01.
    """
    model, task = trial.trained("conditioned-6"), trial.recipe("conditioned-6").make_task()
    dims = task.dims
    sample = task.sample(trial.draw(trial.size(1024, 4096)), 3 * dims + 1)
    xs, ys = sample.xs.double(), sample.ys.double()
    descent = descended(xs, ys, torch.tensor([2000], device=xs.device), summed_rate(xs, 0.01))[0]
    answers = {
        "decoder": model.predict_prefixes(sample.xs, sample.ys),
        "Newton, 21 steps": Newton(steps=21).predict_prefixes(xs, ys),
        "gradient descent, 2000 steps": (descent * xs).sum(-1),
    }
    error = {name: (a - ys).square().mean(0) / task.power for name, a in answers.items()}
    plot = Plot(
        "Ill-conditioned inputs", "examples", "squared error / d", range(1, 3 * dims + 1),
        {name: e[1:].tolist() for name, e in error.items()}, log="y",
    )  # fmt: skip
    decoder, newton, gd = (e[2 * dims].item() for e in error.values())
    return Measurement(
        {"against_newton": (decoder / newton, gd / newton)}, plot=plot, reported={"error of the decoder": decoder}
    )


def summed_rate(xs: Tensor, rate: float = RATE) -> Tensor:
    """A rate on the sum over examples as one on their mean, for each prefix: `(points, 1)`."""
    return rate * counts(xs).unsqueeze(-1)


class Paths(NamedTuple):
    """Prompts to fit read-outs on, others to measure on, and the errors there of both methods after each number of
    steps: `(steps, batch, points − 1)`. The point without examples is left out."""

    known: Sample
    asked: Sample
    newton: Tensor
    descent: Tensor


def paths(trial: Trial) -> Paths:
    """The errors of iterative Newton and of gradient descent on linear functions."""
    known, asked = (Linear(dims=5).sample(trial.draw(trial.size(512, 2048), step), 16) for step in (0, 1))
    xs, ys = asked.xs.double(), asked.ys.double()
    newton = torch.stack([Newton(steps=k).predict_prefixes(xs, ys) for k in NEWTON])
    descent = (descended(xs, ys, torch.tensor(DESCENT, device=xs.device), summed_rate(xs)) * xs).sum(-1)
    return Paths(known, asked, (newton - ys)[..., 1:], (descent - ys)[..., 1:])


def bounded(given: Paths) -> Paths:
    """The same where descent diverges, up to errors that are no numbers any more: 1e100, so that their cosines are
    numbers."""
    return given._replace(descent=given.descent.nan_to_num(nan=1e100).clamp(-1e100, 1e100))


def matched_steps(given: Paths, model: Learner) -> dict[str, list[float]]:
    """For each layer the number of steps of Newton's method, and of gradient descent, that it is most similar to.

    `… likeness` is the cosine itself, averaged over prompts.
    """
    errors = (layer_answers(model, given.known, given.asked) - given.asked.ys)[..., 1:]
    results: dict[str, list[float]] = {}
    for name, theirs, steps in (("newton", given.newton, list(NEWTON)), ("gd", given.descent, DESCENT)):
        likeness = torch.stack([F.cosine_similarity(own, theirs, dim=-1).mean(-1) for own in errors])
        best = likeness.max(1)
        results[name] = [float(steps[i]) for i in best.indices.tolist()]
        results[f"{name} likeness"] = best.values.tolist()
    return results


def layer_answers(model: Learner, known: Sample, asked: Sample) -> Tensor:
    """The predictions of a linear read-out of each layer, `(layers, batch, points)`, on the prompts `asked`.

    The read-outs are fitted on the prompts `known`. States are normalised as before a decoder's own read-out.
    """
    results = []
    for before, after in zip(states(model, known.xs, known.ys), states(model, asked.xs, asked.ys), strict=True):
        fit, ask = (F.layer_norm(h, h.shape[-1:]).flatten(0, 1) for h in (before, after))
        results.append(read_linearly(fit, known.ys.reshape(-1, 1), ask, penalty=1e-6).view_as(asked.ys))
    return torch.stack(results)


def middle_slope(steps: Sequence[float]) -> float:
    """The number of steps per layer between a quarter and three quarters of the layers (3 and 9 of 12)."""
    first, last = len(steps) // 4, 3 * len(steps) // 4
    return (steps[last - 1] - steps[first - 1]) / (last - first)


def r_squared(values: Sequence[float]) -> float:
    """R² of a straight line through values at 1, 2, …; 0 if they are all the same."""
    y = torch.tensor(values, dtype=torch.float64)
    x = torch.arange(len(y), dtype=torch.float64)
    x, y = x - x.mean(), y - y.mean()
    return 0.0 if not y.any() else ((x @ y) ** 2 / (x @ x) / (y @ y)).item()


def unexplained(steps: Sequence[float], places: Sequence[float]) -> float:
    """The share of the variance of the logarithms of `steps` that a straight line over `places` leaves; 1 if they are
    all the same. No step counts as one."""
    logs = [math.log(max(s, 1.0)) for s in steps]
    if min(logs) == max(logs):
        return 1.0
    return 1 - torch.corrcoef(torch.tensor([places, logs], dtype=torch.float64))[0, 1].item() ** 2
