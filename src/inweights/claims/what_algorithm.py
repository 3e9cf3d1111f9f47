"""Akyürek et al. 2023: what learning algorithm is in-context learning? (arXiv 2211.15661)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.claims._claim import Found, Plot, claim
from inweights.claims._papers import AKYUREK
from inweights.claims._trial import Trial
from inweights.lab import read_linearly, states
from inweights.lab.models import Learner
from inweights.lab.predictors import GD, OLS, LinearPredictor, Predictor, Ridge
from inweights.lab.predictors._prefix import moments
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build

DIMS, POINTS = 5, 16
DEPTHS = (1, 2, 4, 8)
PHASES: dict[str, list[LinearPredictor]] = {
    "one gradient step": [GD(rate=0.1 * r) for r in range(1, 11)],
    "ridge": [Ridge(penalty=p) for p in (0.1, 0.5, 1.0)],  # the paper's
    "least squares": [OLS()],
}
NOISES = ("0.5", "1", "2")
PENALTIES = [2.0**j for j in range(-7, 8)]


@claim("akyurek-sherman-morrison", AKYUREK, "Theorem 2", exact=True, cost=(1, 1))
def sherman_morrison(trial: Trial) -> Found:
    """A constant number of the operations that a transformer has (products, affine maps and a division) brings ridge
    regression from one example to the next, if d² numbers are kept for the inverse.

    Measured: the largest difference between the weights of that recursion and ridge regression solved anew, after each
    of 20 examples, relative to the largest weight.

    Control: the same without the inverse being carried on: every example meets I/λ, as the first one does.

    Settings: d = 5, float64, penalties λ = 0.1, 1 and 10; nine operations for an example.
    """
    task = Linear(dims=DIMS, noise=0.5)
    sample = task.sample(trial.draw(trial.size(16, 128), dtype=torch.float64), 21)
    errors: list[float] = []
    controls: list[float] = []
    for penalty in (0.1, 1.0, 10.0):
        wanted = Ridge(penalty=penalty).weights(sample.xs, sample.ys)
        for carried, into in ((True, errors), (False, controls)):
            found = recursion(sample.xs, sample.ys, penalty, carried=carried)
            into.append(((found - wanted).abs().max() / wanted.abs().max()).item())
    return Found({"error": (errors, controls)})


def recursion(xs: Tensor, ys: Tensor, penalty: float, *, carried: bool = True) -> Tensor:
    """The weights of ridge regression after 0, 1, … examples, `(batch, points, dims)`, by Sherman and Morrison.

    What is kept between examples are `P = (XᵀX + penalty · I)⁻¹` and the weights, d² + d numbers. If `P` is not
    `carried` on, it stays as it was.
    """
    P = torch.eye(xs.shape[-1], dtype=xs.dtype, device=xs.device).repeat(len(xs), 1, 1) / penalty
    w = torch.zeros_like(xs[:, 0]).unsqueeze(-1)
    found = [w]
    for x, y in zip(xs[:, :-1].unsqueeze(-1).unbind(1), ys[:, :-1].unbind(1), strict=True):
        Px = P @ x  # a product
        spread = 1 + x.mT @ Px  # a product and an affine map
        gain = Px / spread  # the division
        P = P - gain @ Px.mT if carried else P  # a product and an affine map
        w = w + gain * (y[:, None, None] - x.mT @ w)  # the same for the weights
        found.append(w)
    return torch.cat(found, -1).mT


@claim("akyurek-ols", AKYUREK, "Section 4, without noise", needs=("depth-8", "depth-1"), cost=(2, 14))
def ols(trial: Trial) -> Found:
    """Where labels have no noise, a deep transformer answers as least squares does, the shortest solution where there
    are several.

    Measured: the mean squared difference of the two answers to the same queries, divided by d, after 1 to 15 examples.

    Control: a decoder of one layer, trained alike.

    Settings: d = 5, a decoder of 8 layers of width 40.
    """
    task = Linear(dims=DIMS)
    sample = task.sample(trial.draw(trial.size(1024, 8192)), POINTS)
    deep, shallow, least, ridge = answers(
        sample, trial.trained("depth-8"), trial.trained("depth-1"), OLS(), Ridge(penalty=0.1)
    )
    away, control = ((a - least).square() / DIMS for a in (deep, shallow))
    plot = Plot(
        "Distance to least squares", "examples", "squared difference / d", range(1, POINTS),
        {"8 layers": away.mean(0).tolist(), "1 layer": control.mean(0).tolist()}, log="y",
    )  # fmt: skip
    told = {
        "to ridge, penalty 0.1": apart(deep, ridge),
        "at fewer examples than dimensions": away[:, : DIMS - 1].mean().item(),
    }
    return Found({"difference": (away.mean(1), control.mean(1))}, plot=plot, told=told)


@claim(
    "akyurek-ridge", AKYUREK, "Section 4, with noise", needs=(*(f"ridge-{n}" for n in NOISES), "depth-8"), cost=(3, 24)
)
def ridge(trial: Trial) -> Found:
    """Where labels have noise, a transformer answers as ridge regression with the penalty σ²/τ² does, which is Bayes'.

    Measured: for each noise level, whether the penalty whose answers are nearest to the decoder's is σ²/τ² or next to
    it on a grid of powers of 2, from 2⁻⁷ to 2⁷.

    Control: a decoder that was trained without noise, on the same prompts.

    Settings: d = 5, τ = 1, σ = 0.5, 1 and 2, a decoder of 2 layers of width 32 for each, trained on clean labels of the
    queries (which has the same best answer); 15 examples.
    """
    hits: list[float] = []
    controls: list[float] = []
    told: dict[str, float] = {}
    for name in NOISES:
        noise = float(name)
        sample = Linear(dims=DIMS, noise=noise).sample(trial.draw(trial.size(512, 4096)), POINTS)
        ridges = answers(sample, *(Ridge(penalty=p) for p in PENALTIES))
        for model, into in ((f"ridge-{name}", hits), ("depth-8", controls)):
            (own,) = answers(sample, trial.trained(model))
            best = PENALTIES[nearest([apart(own, r) for r in ridges])]
            into.append(float(noise**2 / 2.01 < best < noise**2 * 2.01))
            if into is hits:
                told[f"penalty at noise {name}"] = best
    return Found({"hits": (hits, controls)}, told=told)


@claim("akyurek-phases", AKYUREK, "Section 4, depth", needs=tuple(f"depth-{d}" for d in DEPTHS), cost=(4, 25))
def phases(trial: Trial) -> Found:
    """As transformers get deeper, they go from one step of gradient descent to ridge regression to least squares.

    Measured: the rank correlation of depth with the algorithm whose answers are nearest, those three counted in this
    order. It is above 0.9 only if all three occur, in order.

    Control: the same decoders before their training. Where all are nearest to the same one, the correlation is 0.

    Settings: d = 5, width 40, 1, 2, 4 and 8 layers, 1 to 15 examples; of gradient steps the best of ten rates from 0.1
    to 1, of ridge regressions the best of the penalties 0.1, 0.5 and 1.
    """
    sample = Linear(dims=DIMS).sample(trial.draw(trial.size(512, 4096)), POINTS)
    theirs = [answers(sample, *each) for each in PHASES.values()]

    def distances(model: Predictor) -> list[float]:
        """From each of the three, at their best setting."""
        (own,) = answers(sample, model)
        return [min(apart(own, a) for a in each) for each in theirs]

    trained = [distances(trial.trained(f"depth-{d}")) for d in DEPTHS]
    untrained = [distances(build(trial.recipe(f"depth-{d}")).to(trial.device)) for d in DEPTHS]
    lines = {name: [away[i] for away in trained] for i, name in enumerate(PHASES)}
    plot = Plot("Which algorithm is nearest", "layers", "squared difference / d", DEPTHS, lines, log="xy")
    which, control = ([nearest(away) for away in each] for each in (trained, untrained))
    told = {f"nearest at {d} layers": float(i) for d, i in zip(DEPTHS, which, strict=True)}
    return Found({"order": (rank_correlation(which), rank_correlation(control))}, plot=plot, told=told)


def nearest(away: list[float]) -> int:
    """Which of these is least far away."""
    return away.index(min(away))


def rank_correlation(values: list[int]) -> float:
    """Spearman's, of values with 1, 2, …; equal values share their mean rank. 0 if all are equal."""
    v = torch.tensor(values, dtype=torch.float64)
    ranks = (v.unsqueeze(1) > v).double().sum(1) + (v.unsqueeze(1) == v).double().sum(1) / 2
    ranks, at = ranks - ranks.mean(), torch.arange(len(v)) - (len(v) - 1) / 2
    return 0.0 if not ranks.any() else (ranks @ at.double() / ranks.norm() / at.double().norm()).item()


@claim("akyurek-probe", AKYUREK, "Section 5", needs=("depth-8",), cost=(15, 120))
def probe(trial: Trial) -> Found:
    """The states of a trained transformer hold the quantities that the algorithm goes through: the weights of least
    squares can be read from a late layer.

    Measured: R² on other prompts of a linear probe for these weights, at the best layer, less that of a control task:
    the weights of least squares for the same labels paired with the wrong inputs, which nobody needs.

    Control: the same in the decoder before its training.

    Settings: d = 5, 15 examples, a decoder of 8 layers of width 40. The probe is a ridge regression on the state of the
    last token and the mean state of all tokens. Told beside it: a probe with a hidden layer at every token, which can
    do so much by itself that it nearly does without the training.
    """
    models = trial.trained("depth-8"), build(trial.recipe("depth-8")).to(trial.device)
    linear = [probed(trial, m, last_and_mean) for m in models]
    hidden = [probed(trial, m, through_a_layer) for m in models]
    gained = [max(r["weights"]) - max(r["control task"]) for r in linear]
    lines = linear[0] | {"weights, hidden layer": hidden[0]["weights"], "the same, untrained": hidden[1]["weights"]}
    plot = Plot("What can be read from a layer", "layer", "R²", range(1, len(linear[0]["weights"]) + 1), lines)
    told = {
        "weights, linear probe": max(linear[0]["weights"]),
        "weights, hidden layer": max(hidden[0]["weights"]),
        "weights, hidden layer, untrained": max(hidden[1]["weights"]),
        "control task, hidden layer": max(hidden[0]["control task"]),
    }
    return Found({"gained": (gained[0], gained[1])}, plot=plot, told=told)


def last_and_mean(h: Tensor) -> Tensor:
    """`(batch, points, width)` → `(batch, 2 width)`."""
    return torch.cat([h[:, -1], h.mean(1)], -1)


def through_a_layer(h: Tensor, units: int = 256) -> Tensor:
    """Normed states through a random layer, averaged over tokens: `(batch, points, width)` → `(batch, units)`."""
    drawn = torch.randn(h.shape[-1] + 1, units, generator=torch.Generator().manual_seed(0)).to(h)
    return (2 * F.layer_norm(h, h.shape[-1:]) @ drawn[1:] / h.shape[-1] ** 0.5 + drawn[0]).relu().mean(1)


def probed(trial: Trial, model: Learner, seen: Callable[[Tensor], Tensor]) -> dict[str, list[float]]:
    """R² of probes on what is `seen` of each layer: for the weights, for `Xᵀy`, and for the control task.

    Their penalties are chosen on prompts of their own, so that what cannot be read comes out at about 0.
    """
    prompts = trial.size((1024, 512, 512), (8192, 2048, 2048))  # to fit, to choose, to measure
    samples = [Linear(dims=DIMS).sample(trial.draw(n, step), POINTS) for step, n in enumerate(prompts)]
    targets = {
        "weights": [OLS().weights(s.xs, s.ys)[:, -1] for s in samples],
        "Xᵀy": [moments(s.xs, s.ys)[:, -1] / (POINTS - 1) for s in samples],
        "control task": [OLS().weights(s.xs, wrongly_paired(s.ys))[:, -1] for s in samples],
    }
    known, *asked = (torch.cat(each, -1) for each in zip(*targets.values(), strict=True))
    found: dict[str, list[float]] = {name: [] for name in targets}
    for layer in zip(*(states(model, s.xs, s.ys) for s in samples), strict=True):
        fit, *rest = map(seen, layer)
        tried = []
        for penalty in (1e-2, 0.1, 1.0, 10.0):
            read = read_linearly(fit, known, torch.cat(rest), penalty=penalty).split(prompts[1:])
            tried.append(torch.stack([explained(r, t.double()) for r, t in zip(read, asked, strict=True)]))
        chosen, measured = torch.stack(tried, 1)  # both (penalties, targets)
        for name, which, r in zip(targets, chosen.argmax(0), measured.mT, strict=True):
            found[name].append(r[which].item())
    return found


def explained(read: Tensor, target: Tensor) -> Tensor:
    """R² of each target, `(targets,)`: they lie side by side, `DIMS` numbers each."""
    left = (read - target).square().mean(0) / (target - target.mean(0)).square().mean(0)
    return 1 - left.view(-1, DIMS).mean(1)


def wrongly_paired(ys: Tensor) -> Tensor:
    """The labels of all examples, each moved on to the next input; the query keeps its place."""
    return torch.cat([ys[:, :-1].roll(1, 1), ys[:, -1:]], 1)


def answers(sample: Sample, *predictors: Predictor) -> list[Tensor]:
    """After 1, 2, … examples, each `(batch, points − 1)`."""
    return [p.predict_prefixes(sample.xs, sample.ys)[:, 1:].double() for p in predictors]


def apart(one: Tensor, other: Tensor) -> float:
    """The mean squared difference of answers, divided by d."""
    return (one - other).square().mean().item() / DIMS
