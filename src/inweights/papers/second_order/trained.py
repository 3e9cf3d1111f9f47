"""Fu et al. 2023: transformers learn higher-order optimisation methods. Claims about trained models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import read_linearly, states
from inweights.lab.models import Learner
from inweights.lab.predictors import Newton, PreconditionedGD
from inweights.lab.tasks import Linear, Rotated, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._descent import best_descent
from inweights.papers._papers import FU
from inweights.papers.second_order.claims import descended

RATE = 0.04  # of gradient descent; the paper's 0.01 times 20 / 5: steps are stable up to 2 / |x|²
NEWTON = range(31)
DESCENT = sorted({math.ceil(1.15**j) for j in range(83)})  # up to about 100,000


@claim("fu-steps-per-layer", FU, "Section 4.2, Figure 3", needs=("depth-8", "lstm-5"), cost=(6, 60))
def steps_per_layer(trial: Trial) -> Measurement:
    """Successive layers of a trained transformer match the iterations of Newton's method in a line, and each of its
    middle layers advances by several of them.

    Measured: R² of a straight line through the number of Newton steps with the errors most similar to those of a
    layer's read-out, against the layer, over all layers; and the number of such steps per layer in the middle half of
    the layers.

    Control: for R², the same untrained decoder; for the steps, an LSTM, which hardly advances, though possibly
    linearly.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40 (the paper: d = 20, 12 layers, of which 3 to 9 make
    about 3 steps each), an LSTM of 4 layers of width 32; layers 2 to 6 and 1 to 3 are their middle halves. A linear
    read-out per layer, fitted here on other prompts; similarity is the cosine of a prompt's errors after 1 to 15
    examples. Also measured: R² for the logarithm of the layer, which one gradient step per layer would resemble.
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
        "LSTM, R²": r_squared(lstm["newton"]),
        "a logarithm, R²": r_squared([math.log(n) for n in layers]),
        "paper, steps per layer": 3.0,
    }
    fits = [r_squared(steps["newton"]) for steps in (ours, untrained)]
    gained = [middle_slope(steps["newton"]) for steps in (ours, lstm)]
    results = {"r_squared": (fits[0], fits[1]), "steps_per_layer": (gained[0], gained[1])}
    return Measurement(results, plot=plot, reported=reported)


@claim("fu-exponential", FU, "Section 4.2, Figure 3", needs=("depth-8", "lstm-5"), cost=(6, 60))
def exponential(trial: Trial) -> Measurement:
    """Gradient descent needs exponentially more steps to match each further layer.

    Measured: R² of a straight line through the logarithm of the number of gradient steps with the errors most similar
    to those of a layer's read-out, against the layer; and the ratio of the steps of the last layer to those of the
    first.

    Control: for R², the same untrained decoder; for the ratio, an LSTM, in which layers are no such steps.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40, an LSTM of 4 layers of width 32; gradient descent
    at a rate of 0.04 (the paper's 0.01 at d = 20), up to 100,000 steps in ratios of 1.15; read-outs and similarity as
    for Newton's steps. One gradient step for each layer would have a ratio of 8.
    """
    models = trial.trained("depth-8"), trial.trained("lstm-5"), build(trial.recipe("depth-8")).to(trial.device)
    given = paths(trial)
    ours, lstm, untrained = (matched_steps(given, model)["gd"] for model in models)
    layers = list(range(1, len(ours) + 1))
    lines = {"decoder": ours, "before its training": untrained}
    plot = Plot("Gradient steps that a layer is most like", "layer", "steps", layers, lines, log="y")
    fits = [r_squared([math.log(s) for s in steps]) for steps in (ours, untrained)]
    return Measurement(
        {"r_squared": (fits[0], fits[1]), "steps_ratio": (ours[-1] / ours[0], lstm[-1] / lstm[0])},
        plot=plot,
        reported={
            "steps of the last layer": ours[-1],
            "of the LSTM's": lstm[-1],
            "paper, first": 50.0,
            "paper, last": 1300.0,
        },
    )


@claim("fu-ill-conditioned", FU, "Section 4.3, Figure 4", needs=("rotated-5",), cost=(2, 8))
def ill_conditioned(trial: Trial) -> Measurement:
    """On ill-conditioned inputs, a transformer is about as good as Newton's method, and gradient descent is not.

    Measured: the squared error of a decoder after 2d examples over that of 21 steps of iterative Newton.

    Control: 1,300 steps of gradient descent in place of the decoder: as many as the paper needs to match its last layer
    where inputs are well-conditioned.

    Settings: d = 5, variances 1, 1, 1, 0.01 and 0.01 (κ = 100, as in the paper), a decoder of 4 layers of width 32,
    weights from N(0, Σ⁻¹), so that no direction can be left out. Gradient descent at a rate of 0.04. The paper draws
    axes for each prompt; here all prompts share them, so that the decoder can learn Σ, which Newton's method is not
    given. Also measured, therefore: descent that is given Σ, with one optimal step per layer.
    """
    model = trial.trained("rotated-5")
    task = trial.recipe("rotated-5").make_task()
    assert isinstance(task, Rotated)
    sample = task.sample(trial.draw(trial.size(1024, 4096)), 16)
    xs, ys = sample.xs.double(), sample.ys.double()
    descent = descended(xs, ys, torch.tensor([1300], device=xs.device), RATE)[0]
    rates = (10 * best_descent(trial, Linear(dims=5), 10, 4).eta).tolist()
    whitened = PreconditionedGD.whitening(task.covariance(trial.device, torch.float64), tuple(rates))
    answers = {
        "decoder": model.predict_prefixes(sample.xs, sample.ys),
        "Newton, 21 steps": Newton(steps=21).predict_prefixes(xs, ys),
        "gradient descent, 1300 steps": (descent * xs).sum(-1),
        "descent that is told Σ, 4 steps": whitened.predict_prefixes(xs, ys),
    }
    error = {name: (a - ys).square().mean(0) / task.power for name, a in answers.items()}
    plot = Plot(
        "Ill-conditioned inputs", "examples", "squared error / d", range(1, 16),
        {name: e[1:].tolist() for name, e in error.items()}, log="y",
    )  # fmt: skip
    decoder, newton, gd, reported = (e[10].item() for e in error.values())
    return Measurement(
        {"against_newton": (decoder / newton, gd / newton)},
        plot=plot,
        reported={"error of the decoder": decoder, "descent that is told Σ, over Newton": reported / newton},
    )


class Paths(NamedTuple):
    """Prompts to fit read-outs on, others to measure on, and the errors there of both methods after each number of
    steps: `(steps, batch, points − 1)`. The point without examples is left out."""

    known: Sample
    asked: Sample
    newton: Tensor
    descent: Tensor


@lru_cache(maxsize=5)  # two claims use the same paths
def paths(trial: Trial) -> Paths:
    """The errors of iterative Newton and of gradient descent on linear functions."""
    known, asked = (Linear(dims=5).sample(trial.draw(trial.size(512, 2048), step), 16) for step in (0, 1))
    xs, ys = asked.xs.double(), asked.ys.double()
    newton = torch.stack([Newton(steps=k).predict_prefixes(xs, ys) for k in NEWTON])
    descent = (descended(xs, ys, torch.tensor(DESCENT, device=xs.device), RATE) * xs).sum(-1)
    return Paths(known, asked, (newton - ys)[..., 1:], (descent - ys)[..., 1:])


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
