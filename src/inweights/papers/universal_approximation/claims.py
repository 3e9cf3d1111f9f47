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


@claim("genli-features", GEN_LI, "Abstract (i): linear representation", cost=(2.4, 30))
def features(trial: Trial) -> Measurement:
    """Any target of the class is nearly linear, with a small ℓ1 norm, over one set of universal features: m of them
    leave a squared error of at most C²/m.

    Measured: the mean squared error of the weights `a(ω_j) / m`, whose ℓ1 norm is at most C, times m / C², for
    that of m = 16, 64, 256 and 1,024 where it is largest; averaged over sets of features, as the bound is one on the
    mean over draws, and over targets, which are drawn after the features.

    Control: the same for m = 1,024 and targets multiplied by a wave of frequency 6, outside of the class that the
    features are for, with the best weights of all, by least squares on the very points that are measured.

    Settings: `f(x) = E [a(ω) √2 sin(ω·x)]` with |a| ≤ C = 1 and normal ω in 4 dimensions; 20 sets of features (full:
    200) for 2 targets each, 500 normal points; for the control 4 of both, 2,000 points; float64.

    Precondition: answering 0 does not meet the bound for the largest m.
    """
    random, most = trial.generator(), max(COUNTS)
    missed: list[list[float]] = []
    for _ in range(trial.size(20, 200)):
        universal = normal(random, most, DIMS)
        for _ in range(2):
            xs, direction = normal(random, 500, DIMS), normal(random, DIMS)
            f, Z = target(xs, direction), waves(xs, universal)
            trial.require(float(f.square().mean()) > 1 / most, "always answering 0 meets the bound")
            weights = [amplitude(universal[:m], direction) / m for m in COUNTS]
            missed.append([float((Z[:, : len(w)] @ w - f).square().mean()) for w in weights])
    line = torch.tensor(missed).mean(0)
    lines = {"error": line.tolist(), "C²/m": [1 / m for m in COUNTS]}
    plot = Plot("Targets as sums of universal features", "features", "squared error", COUNTS, lines, log="xy")
    control = sum(outside(random, most) for _ in range(4)) / 4
    return Measurement({"bound": (float((line * torch.tensor(COUNTS)).max()), control * most)}, plot=plot)


def outside(random: torch.Generator, count: int) -> float:
    """The mean squared error of the best weights for a target times a wave of frequency 6."""
    universal, xs, direction = normal(random, count, DIMS), normal(random, 2000, DIMS), normal(random, DIMS)
    wanted = (target(xs, direction) * (6 * xs @ direction / direction.norm()).cos()).unsqueeze(-1)
    Z = waves(xs, universal)
    return float((Z @ torch.linalg.lstsq(Z, wanted).solution - wanted).square().mean())


M, KEPT, NOISE = 64, 2, 0.05
EXAMPLES = (6, 12, 24)
PENALTIES = tuple(10.0**-k for k in (1, 1.5, 2, 2.5))
RIDGE = tuple(10.0**k for k in (-2, -1, 0, 1))


def risks(trial: Trial, kept: int) -> dict[str, list[float]]:
    """The mean squared errors on new points, in units of always answering 0, of the Lasso and of ridge regression, each
    with the best of its penalties, and of least squares, after each of `EXAMPLES`.

    - `kept`: the number of features in a target; its weights have the same norm for any number.
    """
    random = trial.generator()
    tables = torch.stack([squared_errors(random, trial.size(10, 40), kept) for _ in range(10)]).mean(0)
    lasso, ridge, least = tables.split([len(PENALTIES), len(RIDGE), 1])
    best = {"Lasso": lasso.amin(0), "ridge regression": ridge.amin(0), "least squares": least[0]}
    return {name: line.tolist() for name, line in best.items()}


def squared_errors(random: torch.Generator, prompts: int, kept: int) -> Tensor:
    """The errors for one set of features, `(penalties, examples)`: of the Lasso, ridge regression, least squares."""
    universal, n = normal(random, M, DIMS), max(EXAMPLES)
    phi, asked = (waves(normal(random, prompts * k, DIMS), universal).view(prompts, k, M) for k in (n + 1, 50))
    w = torch.zeros(prompts, M, dtype=torch.float64)
    for row in w:
        row[torch.randperm(M, generator=random)[:kept]] = normal(random, kept) / math.sqrt(kept)
    truth = (asked @ w.unsqueeze(-1)).squeeze(-1)
    ys = (phi @ w.unsqueeze(-1)).squeeze(-1) + NOISE * normal(random, prompts, n + 1)
    lasso = lasso_path(phi, ys, PENALTIES)  # (penalties, prompts, n + 1, M)
    columns = []
    for k in EXAMPLES:
        X, y, eye = phi[:, :k], ys[:, :k].unsqueeze(-1), torch.eye(k, dtype=phi.dtype)
        ridges = [X.mT @ torch.linalg.solve(X @ X.mT + penalty * eye, y) for penalty in RIDGE]
        weights = torch.stack([*lasso[:, :, k], *(v.squeeze(-1) for v in (*ridges, torch.linalg.pinv(X) @ y))])
        answers = (asked @ weights.unsqueeze(-1)).squeeze(-1)
        columns.append((answers - truth).square().mean((1, 2)) / truth.square().mean())
    return torch.stack(columns, 1)


def slope(errors: Sequence[float]) -> float:
    """The slope of the logarithm of an error, after each of `EXAMPLES`, against that of their number."""
    logs = torch.tensor(EXAMPLES, dtype=torch.float64).log()
    logs = logs - logs.mean()
    return float((torch.tensor(errors, dtype=torch.float64).log() * logs).sum() / logs.square().sum())


@claim("genli-few", GEN_LI, "Abstract: few noisy examples", cost=(3, 20))
def few(trial: Trial) -> Measurement:
    """From few noisy examples, fewer than there are features, the target's representation is found with a small risk,
    as by the Lasso, because its ℓ1 norm is small.

    Measured: the mean squared error of the Lasso on new points divided by that of least squares of the smallest norm,
    after 24 examples; and the exponent with which the Lasso's error falls from 6 to 24 examples.

    Control: targets of the same norm that have all features in equal parts, whose ℓ1 norm is large.

    Rival: any shrinking: ridge regression, with the best of four penalties, in place of the Lasso.

    Settings: 64 features `√2 sin(ω·x)` in 4 dimensions, 2 of them in a target; noise 0.05; the best of four penalties;
    10 sets of features with 10 targets each (full: 40), 50 new points for a target, float64.
    """
    small, large = risks(trial, KEPT), risks(trial, M)
    ratios = {name: line["Lasso"][-1] / line["least squares"][-1] for name, line in (("s", small), ("l", large))}
    lines = {f"{name}, {KEPT} features": line for name, line in small.items()}
    lines["Lasso, all features"] = large["Lasso"]
    plot = Plot("Targets from few examples", "examples", "share of always answering 0", EXAMPLES, lines, log="xy")
    return Measurement(
        {
            "against_least_squares": (ratios["s"], ratios["l"]),
            "exponent": (slope(small["Lasso"]), slope(large["Lasso"])),
        },
        plot=plot,
        rivals={"against_least_squares": small["ridge regression"][-1] / small["least squares"][-1]},
    )


COUNT, PENALTY, MANY = 12, 0.3, 3000


def proximal(phi: Tensor, ys: Tensor, steps: int, rate: float, penalty: float = PENALTY) -> Tensor:
    """The weights `(batch, m)` after some steps of the proximal gradient method from 0, for features `(batch, n, m)`
    and labels `(batch, n)`."""
    w = torch.zeros_like(phi[:, 0])
    for _ in range(steps):
        missed = (phi @ w.unsqueeze(-1)).squeeze(-1) - ys
        moved = w - rate * (phi.mT @ missed.unsqueeze(-1)).squeeze(-1) / phi.shape[1]
        w = moved.sign() * (moved.abs() - rate * penalty).clamp(min=0)
    return w


@claim("genli-lasso", GEN_LI, "Abstract (ii): a transformer solves the Lasso", exact=True, cost=(4.8, 10))
@torch.no_grad()
def lasso(trial: Trial) -> Measurement:
    """A transformer can be constructed that finds the linear representation at test time, by solving the Lasso: its
    layers are steps of the proximal gradient method on universal features.

    Measured: the root mean square over prompts of the difference of its prediction, after 1, 4 and 16 layers, from that
    of as many steps of the method, computed directly, and after 3,000 layers from that of the exact solution, computed
    by its path; relative to that of the predictions.

    Control: the same layers without the MLPs that set small weights to 0.

    Settings: 12 ReLU features of 3 dimensions, computed by the first layer; 16 examples, penalty 0.3, noise 0.1;
    targets with 3 features; 8 prompts (full: 32), float64. The step is 1 over the largest eigenvalue of the features'
    second moments, over all prompts.
    """
    random, prompts, n = trial.generator(), trial.size(8, 32), 16
    universal = Features(3, COUNT, random)
    xs = normal(random, prompts, n + 1, 3)
    phi = universal(xs)
    w = torch.zeros(prompts, COUNT, dtype=torch.float64)
    w[:, :3] = normal(random, prompts, 3)
    ys = (phi[:, :-1] @ w.unsqueeze(-1)).squeeze(-1) + 0.1 * normal(random, prompts, n)
    rate = 1 / float(torch.linalg.eigvalsh(phi[:, :-1].mT @ phi[:, :-1] / n).max())
    # The path needs a query; its label is not used.
    exact = lasso_path(phi, torch.cat([ys, ys[:, :1]], 1), [PENALTY])[0][:, -1]

    def apart(layers: int, weights: Tensor) -> Tensor:
        """The distances of the layers from these weights, with their MLPs and without, `(2,)`."""
        wanted = (phi[:, -1] * weights).sum(-1)
        models = (LassoTransformer(universal, layers, rate, PENALTY, thresholds=mlp) for mlp in (True, False))
        return torch.stack(
            [(model(xs, ys) - wanted).square().mean() / wanted.square().mean() for model in models]
        ).sqrt()

    steps = torch.stack([apart(layers, proximal(phi[:, :-1], ys, layers, rate)) for layers in (1, 4, 16)])
    solution = apart(MANY, exact)
    return Measurement({"steps": (steps[:, 0], steps[:, 1]), "solution": (solution[0], solution[1])})
