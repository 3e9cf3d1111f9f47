"""Fu et al. 2023: transformers learn higher-order optimisation methods (arXiv 2310.17086)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.claims._claim import Found, Plot, claim
from inweights.claims._papers import FU
from inweights.claims._trial import Trial
from inweights.lab import read_linearly, states
from inweights.lab.models import LSA, Learner, LSAModel, gd_construction
from inweights.lab.predictors import Newton
from inweights.lab.predictors._prefix import counts, grams, moments, times
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build

RATE = 0.04  # of gradient descent; the paper's 0.01 times 20 / 5: steps are stable up to 2 / |x|²
NEWTON = range(31)
DESCENT = sorted({math.ceil(1.15**j) for j in range(83)})  # up to about 100,000


@claim("fu-newton-converges", FU, "Section 3, the rate of iterative Newton", exact=True, cost=(1, 5))
def newton_converges(trial: Trial) -> Found:
    """Iterative Newton needs a number of steps that grows with the logarithm of the condition number κ, and with the
    logarithm of the logarithm of 1/ε, to bring the weights within ε.

    Measured: the first step with |w − w*| < ε |w*|, divided by 1 + 2 log₂ κ + log₂ ln(1/ε) + ½ log₂ d, which is what
    the start α = 1/|S²| in the Frobenius norm gives.

    Control: the same for gradient descent at its best rate.

    Settings: d = 8, 16 examples, float64, ε = 1e-6, eigenvalues of S from 1/κ to 1 in equal ratios, κ = 10, 100, 1000.
    """
    dims, examples, epsilon, kappas = 8, 16, 1e-6, (10.0, 100.0, 1000.0)
    generator, prompts = trial.generator(), trial.size(4, 64)
    found: dict[str, list[Tensor]] = {"newton": [], "gradient descent": []}
    bounds = []
    for kappa in kappas:
        values = torch.logspace(-math.log10(kappa), 0, dims, dtype=torch.float64)
        left = torch.linalg.qr(torch.randn(prompts, examples, dims, dtype=torch.float64, generator=generator))[0]
        right = torch.linalg.qr(torch.randn(prompts, dims, dims, dtype=torch.float64, generator=generator))[0]
        w = torch.randn(prompts, dims, 1, dtype=torch.float64, generator=generator)
        xs = F.pad((left * values.sqrt()) @ right.mT, (0, 0, 0, 1))  # a query at the end, which nobody asks
        ys = (xs @ w).squeeze(-1)
        newton = torch.stack([Newton(steps=k).weights(xs, ys)[:, -1] for k in range(32)])
        at = torch.tensor(sorted({math.ceil(1.05**j) for j in range(200)}))
        descent = descended(xs, ys, at, 2 * examples / (1 + 1 / kappa))[:, :, -1]
        for name, path, steps in (("newton", newton, torch.arange(32)), ("gradient descent", descent, at)):
            near = (path - w.squeeze(-1)).norm(dim=-1) < epsilon * w.squeeze(-1).norm(dim=-1)
            first = torch.where(near.any(0), steps[near.int().argmax(0)], steps[-1])  # the last: it never came near
            found[name].append(first.double())
        bounds.append(1 + 2 * math.log2(kappa) + math.log2(math.log(1 / epsilon)) + 0.5 * math.log2(dims))
    shares = {name: torch.cat([s / b for s, b in zip(each, bounds, strict=True)]) for name, each in found.items()}
    lines = {name: [s.mean().item() for s in each] for name, each in found.items()} | {"bound": bounds}
    plot = Plot("Steps until the weights are found", "condition number", "steps", kappas, lines, log="xy")
    return Found({"steps": (shares["newton"], shares["gradient descent"])}, plot=plot)


@claim("fu-construction", FU, "Theorem 5.1", exact=True, cost=(1, 1))
def construction(trial: Trial) -> Found:
    """A transformer can make k iterations of Newton's method with k + O(1) layers and a width of O(d).

    Measured: the largest difference between the answers of a stack of k + 2 layers of linear self-attention, of width
    2d + 1, and k steps of iterative Newton, relative to the largest answer; for k = 1, 2, 4 and 8.

    Control: gradient descent in as many layers, at the largest rate that is stable on every prompt.

    Settings: d = 5, 20 examples, float64. Prompts are scaled to |S²| = 1, so that Newton's start α is a weight of the
    model; the paper spends some of its O(1) layers on it. Attention is linear: two heads of the paper's.
    """
    dims, examples = 5, 20
    sample = Linear(dims=dims).sample(trial.draw(trial.size(32, 256), dtype=torch.float64), examples + 1)
    S = sample.xs[:, :-1].mT @ sample.xs[:, :-1]
    scale = torch.linalg.matrix_norm(S @ S) ** -0.25
    xs, ys = sample.xs * scale[:, None, None], sample.ys
    errors: list[float] = []
    controls: list[float] = []
    for steps in (1, 2, 4, 8):
        wanted = Newton(steps=steps).predict_prefixes(xs, ys)[:, -1]
        ours = newton_construction(steps, dims).to(xs.device)(F.pad(xs, (0, dims)), ys)[:, -1]
        layers = LSA(layers=steps + 2).build(Linear(dims=dims), examples + 1).to(xs)
        descent = gd_construction(layers, float(examples), examples)(xs, ys)[:, -1]  # eigenvalues are at most 1
        for answers, into in ((ours, errors), (descent, controls)):
            into.append(((answers - wanted).abs().max() / wanted.abs().max()).item())
    return Found({"error": (errors, controls)})


def newton_construction(steps: int, dims: int) -> LSAModel:
    """`steps` of iterative Newton from `M = S` as `steps + 2` layers of linear self-attention, in float64.

    Inputs are given with as many zeros behind them, `(x, 0)`: there the layers keep `m = N x`, where `M = 2ˢ N` after s
    steps. That takes the factor 2 out of `M ← 2M − M S M`: what is left, `m_j ← m_j − 2ˢ⁻¹ Σ m_i ⟨x_i, m_j⟩`, is what
    attention adds to a token. The first layer makes `m = S x`, the last answers `2ˢ Σ y_i ⟨x_i, m⟩`.
    """
    model = LSA(layers=steps + 2).build(Linear(dims=2 * dims), 0).double()
    eye = torch.eye(dims, dtype=torch.float64)
    x, m, y = slice(0, dims), slice(dims, 2 * dims), 2 * dims
    out = torch.zeros(steps + 2, 1, 2 * dims + 1, 2 * dims + 1, dtype=torch.float64)
    compare = torch.zeros_like(out)
    out[0, 0, m, x], compare[0, 0, x, x] = eye, eye
    for step in range(steps):
        out[step + 1, 0, m, m] = -(2.0 ** (step - 1)) * eye
    out[-1, 0, y, y] = -(2.0**steps)  # an lsa answers minus the label's entry
    compare[1:, 0, x, m] = eye
    model.form.write(out, compare)
    return model


@claim("fu-steps-per-layer", FU, "Section 4, best-matching steps", needs=("depth-8", "lstm-5"), cost=(16, 60))
def steps_per_layer(trial: Trial) -> Found:
    """Every layer of a trained transformer advances the answer by about the same number of Newton's iterations.

    Measured: R² of a straight line through the number of Newton steps whose errors are most like those of what is read
    from a layer, against the layer, over all layers; and how many such steps a layer adds, from the first to the last.

    Control: of R², the same decoder before its training; of the steps, an LSTM, which hardly advances, but may do so in
    a line.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40, an LSTM of 4 layers of width 32. A linear read-out
    per layer, fitted here on other prompts; likeness is the cosine of a prompt's errors after 1 to 15 examples. Told
    beside it: R² of the logarithm of the layer, which is what one gradient step for each layer would be like.
    """
    models = trial.trained("depth-8"), trial.trained("lstm-5"), build(trial.recipe("depth-8")).to(trial.device)
    given = paths(trial)
    ours, lstm, untrained = (matched_steps(given, model) for model in models)
    layers = list(range(1, len(ours["newton"]) + 1))
    plot = Plot("Newton's steps that a layer is most like", "layer", "steps", layers, {"decoder": ours["newton"]})
    told = {
        "steps of the last layer": ours["newton"][-1],
        "likeness of the last layer": ours["newton likeness"][-1],
        "LSTM, R²": r_squared(lstm["newton"]),
        "a logarithm, R²": r_squared([math.log(n) for n in layers]),
        "paper, steps per layer": 3.0,
    }
    fits = [r_squared(steps["newton"]) for steps in (ours, untrained)]
    gained = [(steps["newton"][-1] - steps["newton"][0]) / (len(steps["newton"]) - 1) for steps in (ours, lstm)]
    found = {"r_squared": (fits[0], fits[1]), "steps_per_layer": (gained[0], gained[1])}
    return Found(found, plot=plot, told=told)


@claim("fu-exponential", FU, "Section 4, best-matching steps", needs=("depth-8",), cost=(13, 55))
def exponential(trial: Trial) -> Found:
    """Gradient descent needs exponentially more steps to keep up with every further layer.

    Measured: R² of a straight line through the logarithm of the number of gradient steps whose errors are most like
    those of what is read from a layer, against the layer; and the steps of the last layer over those of the first.

    Control: the same decoder before its training.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40, gradient descent at a rate of 0.04 (the paper's
    0.01 at d = 20), up to 100,000 steps in ratios of 1.15; read-outs and likeness as for Newton's steps.
    """
    models = trial.trained("depth-8"), build(trial.recipe("depth-8")).to(trial.device)
    given = paths(trial)
    ours, control = (matched_steps(given, model)["gd"] for model in models)
    layers = list(range(1, len(ours) + 1))
    plot = Plot("Gradient steps that a layer is most like", "layer", "steps", layers, {"decoder": ours}, log="y")
    fits = [r_squared([math.log(s) for s in steps]) for steps in (ours, control)]
    return Found(
        {"r_squared": (fits[0], fits[1]), "steps_ratio": (ours[-1] / ours[0], control[-1] / control[0])},
        plot=plot,
        told={"steps of the last layer": ours[-1], "paper, first": 50.0, "paper, last": 1300.0},
    )


@claim("fu-ill-conditioned", FU, "Section 4, ill-conditioned problems", needs=("rotated-5",), cost=(2, 8))
def ill_conditioned(trial: Trial) -> Found:
    """Where inputs are ill-conditioned, a transformer is about as good as Newton's method, and gradient descent is not.

    Measured: the squared error of a decoder after d to 3d examples over that of 20 steps of iterative Newton.

    Control: 1,300 steps of gradient descent in place of the decoder: as many as the paper needs to match its last layer
    where inputs are well-conditioned.

    Settings: d = 5, variances 1, 1, 1, 0.01 and 0.01 (κ = 100, as in the paper) along axes that all prompts share,
    weights from N(0, Σ⁻¹), so that no direction can be left out; a decoder of 4 layers of width 32, trained on these
    prompts: it may have learned Σ, which Newton's method is not told. Gradient descent at a rate of 0.04.
    """
    model = trial.trained("rotated-5")
    task = trial.recipe("rotated-5").make_task()
    sample = task.sample(trial.draw(trial.size(1024, 4096)), 16)
    xs, ys = sample.xs.double(), sample.ys.double()
    descent = descended(xs, ys, torch.tensor([1300], device=xs.device), RATE)[0]
    answers = {
        "decoder": model.predict_prefixes(sample.xs, sample.ys),
        "Newton, 20 steps": Newton(steps=20).predict_prefixes(xs, ys),
        "gradient descent, 1300 steps": (descent * xs).sum(-1),
    }
    error = {name: (a - ys).square().mean(0) / task.power for name, a in answers.items()}
    plot = Plot(
        "Ill-conditioned inputs", "examples", "squared error / d", range(1, 16),
        {name: e[1:].tolist() for name, e in error.items()}, log="y",
    )  # fmt: skip
    decoder, newton, gd = (e[5:].mean().item() for e in error.values())
    return Found({"against_newton": (decoder / newton, gd / newton)}, plot=plot, told={"error of the decoder": decoder})


class Paths(NamedTuple):
    """Prompts to fit read-outs on, others to measure on, and the errors there of both methods after so many steps:
    `(steps, batch, points − 1)`. Without examples there is nothing to be like."""

    known: Sample
    asked: Sample
    newton: Tensor
    descent: Tensor


def paths(trial: Trial) -> Paths:
    """Of iterative Newton and of gradient descent, on linear functions."""
    known, asked = (Linear(dims=5).sample(trial.draw(trial.size(512, 2048), step), 16) for step in (0, 1))
    xs, ys = asked.xs.double(), asked.ys.double()
    newton = torch.stack([Newton(steps=k).predict_prefixes(xs, ys) for k in NEWTON])
    descent = (descended(xs, ys, torch.tensor(DESCENT, device=xs.device), RATE) * xs).sum(-1)
    return Paths(known, asked, (newton - ys)[..., 1:], (descent - ys)[..., 1:])


def matched_steps(given: Paths, model: Learner) -> dict[str, list[float]]:
    """For each layer the number of steps of Newton's method, and of gradient descent, that it is most like.

    `… likeness` is the cosine itself, averaged over prompts.
    """
    errors = (layer_answers(model, given.known, given.asked) - given.asked.ys)[..., 1:]
    found: dict[str, list[float]] = {}
    for name, theirs, steps in (("newton", given.newton, list(NEWTON)), ("gd", given.descent, DESCENT)):
        likeness = torch.stack([F.cosine_similarity(own, theirs, dim=-1).mean(-1) for own in errors])
        best = likeness.max(1)
        found[name] = [float(steps[i]) for i in best.indices.tolist()]
        found[f"{name} likeness"] = best.values.tolist()
    return found


def layer_answers(model: Learner, known: Sample, asked: Sample) -> Tensor:
    """What can be read from each layer of a model by one linear map: `(layers, batch, points)`, for the prompts asked.

    Fitted on the known prompts. States are normed as they are before a decoder's own read-out.
    """
    found = []
    for before, after in zip(states(model, known.xs, known.ys), states(model, asked.xs, asked.ys), strict=True):
        fit, ask = (F.layer_norm(h, h.shape[-1:]).flatten(0, 1) for h in (before, after))
        found.append(read_linearly(fit, known.ys.reshape(-1, 1), ask, penalty=1e-6).view_as(asked.ys))
    return torch.stack(found)


def descended(xs: Tensor, ys: Tensor, steps: Tensor, rate: float) -> Tensor:
    """The weights of gradient descent after each prefix and each number of `steps`, `(steps, batch, points, dims)`: as
    the lab's `GD`, but at once, along the axes of `S`."""
    n = counts(xs).unsqueeze(-1)
    values, axes = torch.linalg.eigh(grams(xs) / n.unsqueeze(-1))
    b = times(axes.mT, moments(xs, ys) / n)
    left = (1 - rate * values).pow(steps.view(-1, 1, 1, 1))
    gains = torch.where(values > 1e-12, (1 - left) / values.clamp(min=1e-12), 0.0)  # nothing is learned along the rest
    return times(axes, gains * b)


def r_squared(values: Sequence[float]) -> float:
    """Of a straight line through values at 1, 2, …; 0 if they are all the same: there is nothing to explain."""
    y = torch.tensor(values, dtype=torch.float64)
    x = torch.arange(len(y), dtype=torch.float64)
    x, y = x - x.mean(), y - y.mean()
    return 0.0 if not y.any() else ((x @ y) ** 2 / (x @ x) / (y @ y)).item()
