"""Gen Li et al. 2025: a universal approximation theory of in-context learning (arXiv 2506.05200)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from inweights.lab.predictors import lasso_path
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import GEN_LI
from inweights.papers.universal_approximation._layers import Features, LassoTransformer

DIMS = 4
COUNTS = (16, 64, 256, 1024)
def normal(random: torch.Generator, *shape: int) -> Tensor:
    """Standard normal, float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def amplitude(frequencies: Tensor, direction: Tensor) -> Tensor:
    """The amplitude of a target at frequencies `(m, dims)`: at most C = 1 in absolute value."""
    return torch.tanh(2 * frequencies @ direction)


def waves(xs: Tensor, frequencies: Tensor) -> Tensor:
    """The features `√2 sin(ω·x)`, `(points, m)`."""
    return math.sqrt(2) * (xs @ frequencies.mT).sin()


def target(xs: Tensor, direction: Tensor) -> Tensor:
    """`f(x) = E [a(ω) √2 sin(ω·x)]` for normal ω, `(points,)`.

    The amplitude depends on one coordinate g of ω, so that the others give a factor `exp(−|x⊥|²/2)`, with x⊥ the part
    of x across the direction, and an integral over g is left: by the trapezoidal rule, which is exact to rounding for
    such integrands.
    """
    size = direction.norm()
    along = xs @ direction / size
    across = xs.square().sum(-1) - along.square()
    g = torch.linspace(-9, 9, 1801, dtype=xs.dtype)
    density = (-g.square() / 2).exp() / math.sqrt(2 * math.pi) * (g[1] - g[0])
    integral = (along.unsqueeze(-1) * g).sin() @ (density * torch.tanh(2 * size * g))
    return math.sqrt(2) * (-across / 2).exp() * integral


@claim("genli-features", GEN_LI, "Abstract (i): linear representation", cost=(3, 12))
def features(trial: Trial) -> Measurement:
    """Any target of the class is nearly linear, with a small ℓ1 norm, over one set of universal features: m of them
    leave a squared error of at most C²/m.

    Measured: the mean squared error of the weights `a(ω_j) / m`, whose ℓ1 norm is at most C, times m / C², averaged over
    targets, for that of m = 16, 64, 256 and 1,024 where it is largest. Features are drawn before the targets, and the
    bound is one on the mean over draws.

    Control: the same for m = 1,024 and targets multiplied by a wave of frequency 6, outside of the class that the
    features are for, with the best weights of all, by least squares on the very points that are measured.

    Settings: `f(x) = E [a(ω) √2 sin(ω·x)]` with |a| ≤ C = 1 and normal ω in 4 dimensions; 4 targets (full: 20), 2,000
    normal points each, float64.

    Precondition: answering 0 does not meet the bound for the largest m.
    """
    random, points, most = trial.generator(), 2000, max(COUNTS)
    universal = normal(random, most, DIMS)  # one set for all targets
    missed: list[list[float]] = []
    controls: list[float] = []
    for _ in range(trial.size(4, 20)):
        xs, direction = normal(random, points, DIMS), normal(random, DIMS)
        f, Z = target(xs, direction), waves(xs, universal)
        trial.require(float(f.square().mean()) > 1 / most, "always answering 0 meets the bound")
        weights = [amplitude(universal[:m], direction) / m for m in COUNTS]
        missed.append([float((Z[:, : len(w)] @ w - f).square().mean()) for w in weights])
        outside = f * (6 * xs @ direction / direction.norm()).cos()
        best = Z @ torch.linalg.lstsq(Z, outside.unsqueeze(-1)).solution
        controls.append(float((best.squeeze(-1) - outside).square().mean()) * most)
    line = torch.tensor(missed).mean(0)
    lines = {"error": line.tolist(), "C²/m": [1 / m for m in COUNTS]}
    plot = Plot("Targets as sums of universal features", "features", "squared error", COUNTS, lines, log="xy")
    return Measurement({"bound": (float((line * torch.tensor(COUNTS)).max()), sum(controls) / len(controls))}, plot=plot)


M, KEPT, NOISE = 64, 2, 0.05
EXAMPLES = (6, 12, 24)
PENALTIES = tuple(10.0**-k for k in (1, 1.5, 2, 2.5))
RIDGE = tuple(10.0**k for k in (-2, -1, 0, 1))


def risks(trial: Trial, kept: int) -> dict[str, list[float]]:
    """The mean squared errors on new points, in units of always answering 0, of the Lasso and of ridge regression, each
    with the best of its penalties, and of least squares, after each of `EXAMPLES`.

    - `kept`: the number of features in a target; its weights have the same norm for any number.
    """
    random, prompts, n = trial.generator(), trial.size(12, 64), max(EXAMPLES)
    universal = normal(random, M, DIMS)
    phi, asked = (waves(normal(random, prompts * k, DIMS), universal).view(prompts, k, M) for k in (n + 1, 50))
    w = torch.zeros(prompts, M, dtype=torch.float64)
    for row in w:
        row[torch.randperm(M, generator=random)[:kept]] = normal(random, kept) / math.sqrt(kept)
    truth = (asked @ w.unsqueeze(-1)).squeeze(-1)
    ys = (phi @ w.unsqueeze(-1)).squeeze(-1) + NOISE * normal(random, prompts, n + 1)
    lasso = lasso_path(phi, ys, PENALTIES)  # (penalties, prompts, n + 1, M)

    def risk(weights: Tensor) -> float:
        return float(((asked @ weights.unsqueeze(-1)).squeeze(-1) - truth).square().mean() / truth.square().mean())

    result: dict[str, list[float]] = {"Lasso": [], "ridge regression": [], "least squares": []}
    for k in EXAMPLES:
        X, y, eye = phi[:, :k], ys[:, :k].unsqueeze(-1), torch.eye(k, dtype=phi.dtype)
        result["Lasso"].append(min(risk(path[:, k]) for path in lasso))
        ridges = [X.mT @ torch.linalg.solve(X @ X.mT + penalty * eye, y) for penalty in RIDGE]
        result["ridge regression"].append(min(risk(v.squeeze(-1)) for v in ridges))
        result["least squares"].append(risk((torch.linalg.pinv(X) @ y).squeeze(-1)))
    return result


def slope(errors: Sequence[float]) -> float:
    """The slope of the logarithm of an error, after each of `EXAMPLES`, against that of their number."""
    logs = torch.tensor(EXAMPLES, dtype=torch.float64).log()
    logs = logs - logs.mean()
    return float((torch.tensor(errors, dtype=torch.float64).log() * logs).sum() / logs.square().sum())


@claim("genli-few", GEN_LI, "Abstract: few noisy examples", cost=(10, 60))
def few(trial: Trial) -> Measurement:
    """From few noisy examples, fewer than there are features, the target's representation is found with a small risk,
    as by the Lasso, because its ℓ1 norm is small.

    Measured: the mean squared error of the Lasso on new points divided by that of least squares of the smallest norm,
    after 24 examples; and the exponent with which the Lasso's error falls from 6 to 24 examples.

    Control: targets of the same norm that have all features in equal parts, whose ℓ1 norm is large.

    Rival: any shrinking: ridge regression, with the best of four penalties, in place of the Lasso.

    Settings: 64 features `√2 sin(ω·x)` in 4 dimensions, 2 of them in a target; noise 0.05; the best of four penalties;
    12 targets (full: 64), 50 new points each, float64.
    """
    small, large = risks(trial, KEPT), risks(trial, M)
    ratios = {name: line["Lasso"][-1] / line["least squares"][-1] for name, line in (("s", small), ("l", large))}
    lines = {f"{name}, {KEPT} features": line for name, line in small.items()}
    lines["Lasso, all features"] = large["Lasso"]
    plot = Plot("Targets from few examples", "examples", "share of always answering 0", EXAMPLES, lines, log="xy")
    return Measurement(
        {"against_least_squares": (ratios["s"], ratios["l"]), "exponent": (slope(small["Lasso"]), slope(large["Lasso"]))},
        plot=plot,
        rivals={"against_least_squares": small["ridge regression"][-1] / small["least squares"][-1]},
    )


PENALTY, MANY = 0.1, 10_000


def proximal(phi: Tensor, ys: Tensor, steps: int, rate: float, penalty: float = PENALTY) -> Tensor:
    """The weights `(batch, m)` after some steps of the proximal gradient method from 0, for features `(batch, n, m)`
    and labels `(batch, n)`."""
    w = torch.zeros_like(phi[:, 0])
    for _ in range(steps):
        missed = (phi @ w.unsqueeze(-1)).squeeze(-1) - ys
        moved = w - rate * (phi.mT @ missed.unsqueeze(-1)).squeeze(-1) / phi.shape[1]
        w = moved.sign() * (moved.abs() - rate * penalty).clamp(min=0)
    return w


@claim("genli-lasso", GEN_LI, "Abstract (ii): a transformer solves the Lasso", exact=True, cost=(3, 15))
@torch.no_grad()
def lasso(trial: Trial) -> Measurement:
    """A transformer can be constructed that finds the linear representation at test time, by solving the Lasso: its
    layers are steps of the proximal gradient method on universal features.

    Measured: the root mean square over prompts of the difference of its prediction, after 1, 4 and 16 layers, from that
    of as many steps of the method, computed directly, and after 10,000 layers from that of the exact solution, computed
    by its path; relative to that of the predictions.

    Control: the same layers without the MLPs that set small weights to 0.

    Settings: 24 ReLU features of 3 dimensions, computed by the first layer; 16 examples, penalty 0.1, noise 0.1;
    targets with 3 features; 4 prompts (full: 16), float64. The step is 1 over the largest eigenvalue of the features'
    second moments, over all prompts.
    """
    random, prompts, n = trial.generator(), trial.size(4, 16), 16
    universal = Features(3, 24, random)
    xs = normal(random, prompts, n + 1, 3)
    phi = universal(xs)
    w = torch.zeros(prompts, 24, dtype=torch.float64)
    w[:, :3] = normal(random, prompts, 3)
    ys = (phi[:, :-1] @ w.unsqueeze(-1)).squeeze(-1) + 0.1 * normal(random, prompts, n)
    rate = 1 / float(torch.linalg.eigvalsh(phi[:, :-1].mT @ phi[:, :-1] / n).max())
    # The path needs a query; its label is not used.
    exact = lasso_path(phi, torch.cat([ys, ys[:, :1]], 1), [PENALTY])[0][:, -1]

    def apart(layers: int, weights: Tensor) -> Tensor:
        """The distances of the layers from these weights, with their MLPs and without, `(2,)`."""
        wanted = (phi[:, -1] * weights).sum(-1)
        models = (LassoTransformer(universal, layers, rate, PENALTY, thresholds=mlp) for mlp in (True, False))
        return torch.stack([(model(xs, ys) - wanted).square().mean() / wanted.square().mean() for model in models]).sqrt()

    steps = torch.stack([apart(layers, proximal(phi[:, :-1], ys, layers, rate)) for layers in (1, 4, 16)])
    solution = apart(MANY, exact)
    return Measurement({"steps": (steps[:, 0], steps[:, 1]), "solution": (solution[0], solution[1])})
