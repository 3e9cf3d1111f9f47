"""Claims of the notes about scaling: how the error in context falls with parameters, data and compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES

FEATURES, EXAMPLES, NOISE, SPECTRUM = 256, 256, 0.1, 1.5
GRID = 1024
"""Inputs lie on this many points of a circle, where waves of fewer than half as many periods are orthogonal."""
SIZES, DATA = (2, 4, 8, 16, 32), (256, 512, 1024, 2048, 4096)
FITTED = 3
"""Laws are fitted to this many of the smallest sizes, or amounts of data, and tested on the others."""


def variances() -> Tensor:
    """The variances `j^-1.5` of a function's coefficients, `(features,)`."""
    return torch.arange(1, FEATURES + 1, dtype=torch.float64) ** -SPECTRUM


def waves() -> Tensor:
    """The orthonormal features on the grid, `(points, features)`: cosines and sines of 1, 2, … periods."""
    angles = 2 * math.pi / GRID * torch.arange(GRID, dtype=torch.float64).unsqueeze(1)
    periods = torch.arange(1, FEATURES // 2 + 1)
    return math.sqrt(2) * torch.stack([(angles * periods).cos(), (angles * periods).sin()], -1).flatten(1)


def moments() -> Tensor:
    """`E c_j²` of what attention reads from a context, `c_j = (1/n) Σ_i ψ_j(x_i) y_i`, `(features,)`.

    Terms of one example are correlated: `E ψ_j² ψ_k²` is 1, but 3/2 for j = k, and 1/2 for the cosine and the sine of
    as many periods.
    """
    s = variances()
    pairs = s.view(-1, 2)
    own = (s.sum() + 0.5 * pairs - 0.5 * pairs.flip(1)).flatten() + NOISE**2
    return s * (1 - 1 / EXAMPLES) + own / EXAMPLES


class Trained(NamedTuple):
    """The excess errors over the best for the class: of `SIZES` trained on unlimited data, `(sizes,)`, and what is
    added by training on limited data, `(sizes, data)`."""

    size: Tensor
    data: Tensor


def trained(trial: Trial) -> Trained:
    """One layer of linear self-attention on the first m features, with a weight for each, trained to its optimum.

    The prediction is `Σ_j θ_j ψ_j(x) c_j`: least squares in θ. Its risk is known for any θ, as the terms are
    uncorrelated: `Σ_j s_j − 2 θ_j s_j + θ_j² E c_j²`.
    """
    s, c2, table, random = variances(), moments(), waves(), trial.generator()
    best = s / c2
    size = torch.stack([(s * best)[m:].sum() for m in SIZES])
    repeats = trial.size(4, 16)
    data = torch.zeros(len(SIZES), len(DATA), dtype=torch.float64)
    for _ in range(repeats):
        Z, y = prompts(random, max(DATA), table)
        for i, m in enumerate(SIZES):
            for k, count in enumerate(DATA):
                A = Z[:count, :m]
                theta = torch.linalg.solve(A.mT @ A, A.mT @ y[:count])
                data[i, k] += ((theta - best[:m]).square() * c2[:m]).sum() / repeats
    return Trained(size, data)


def prompts(random: torch.Generator, count: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """The terms `ψ_j(x) c_j`, `(count, max size)`, and the labels of the queries without noise, `(count,)`."""
    w = variances().sqrt() * torch.randn(count, FEATURES, generator=random, dtype=torch.float64)
    values = w @ table.mT  # of every function at every point
    at = torch.randint(GRID, (count, EXAMPLES + 1), generator=random)
    y = values.gather(1, at)
    noisy = y[:, :-1] + NOISE * torch.randn(count, EXAMPLES, generator=random, dtype=torch.float64)
    sums = torch.zeros_like(values).scatter_add_(1, at[:, :-1], noisy)
    most = max(SIZES)
    return table[at[:, -1], :most] * (sums @ table[:, :most]) / EXAMPLES, y[:, -1]


def power(x: Sequence[float], y: Tensor) -> tuple[float, float]:
    """`a, b` of the law `a x^b`, by least squares on logarithms."""
    slope, start = line(torch.tensor(x, dtype=torch.float64).log(), y.log())
    return math.exp(start), slope


def line(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Slope and intercept by least squares."""
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return float(slope), float(y.mean() - slope * x.mean())


class Extrapolated(NamedTuple):
    """What laws fitted to the first `FITTED` values predict, divided by what is measured, as a mean of logarithms over
    the others: of a power law, of none (the last value stays), and of an exponential one."""

    power: float
    constant: float
    exponential: float


def extrapolated(x: Sequence[float], y: Tensor) -> Extrapolated:
    """Laws of y `(len(x),)`, fitted on the first values of x and tested on the others."""
    a, b = power(x[:FITTED], y[:FITTED])
    rest = torch.tensor(x[FITTED:], dtype=torch.float64)
    slope, start = line(torch.tensor(x[:FITTED], dtype=torch.float64), y[:FITTED].log())
    laws = a * rest**b, y[FITTED - 1].expand(len(rest)), (start + slope * rest).exp()
    ratios = [float((law / y[FITTED:]).log().mean().exp()) for law in laws]
    return Extrapolated(*ratios)


@claim("note-scaling-size", NOTES, "004, section 9.1, scaling laws", cost=(3.2, 19))
def scaling_size(trial: Trial) -> Measurement:
    """The error in context falls with the size of the model as a power law: one fitted to small models predicts the
    error of large ones.

    Measured: the error that the law predicts for models of 16 and 32 features divided by theirs, in excess of that of a
    model of unlimited size.

    Control: no law: the error of the largest model that the law is fitted to.

    Rival: an exponential law, fitted to the same models.

    Settings: one layer of linear self-attention with a weight for each of 2, 4, 8, 16 and 32 features, trained to its
    optimum; functions on a circle whose coefficients have the variances j^-1.5, 256 examples, noise 0.1. On 4,096
    prompts, the largest amount of data of `note-scaling-data`.
    """
    result = trained(trial)
    excess = result.size + result.data[:, -1]
    law = extrapolated(SIZES, excess)
    plot = Plot("Error and size", "features", "excess error", SIZES, {"excess": excess.tolist()}, log="xy")
    reported = {"exponent": power(SIZES[:FITTED], excess[:FITTED])[1]}
    return Measurement({"predicted": (law.power, law.constant)}, plot, reported, {"predicted": law.exponential})


@claim("note-scaling-data", NOTES, "004, section 9.1, scaling laws", cost=(3.2, 19))
def scaling_data(trial: Trial) -> Measurement:
    """The error in context falls with the number of training prompts as a power law: one fitted to few prompts predicts
    the error after many.

    Measured: the error that the law predicts for 2,048 and 4,096 prompts divided by that after them, in excess of
    training on unlimited data.

    Control: no law: the error after the most prompts that the law is fitted to.

    Rival: an exponential law, fitted to the same amounts.

    Settings: as in `note-scaling-size`, 16 features; 256, 512 and 1,024 prompts are fitted; the mean over 4 sets of
    prompts (full: 16).
    """
    excess = trained(trial).data[SIZES.index(16)]
    law = extrapolated(DATA, excess)
    plot = Plot("Error and data", "prompts", "excess error", DATA, {"excess": excess.tolist()}, log="xy")
    reported = {"exponent": power(DATA[:FITTED], excess[:FITTED])[1]}
    return Measurement({"predicted": (law.power, law.constant)}, plot, reported, {"predicted": law.exponential})


@claim("note-scaling-compute", NOTES, "004, section 9.1, scaling laws", cost=(3.4, 19))
def scaling_compute(trial: Trial) -> Measurement:
    """The least error in context for a given compute follows from the laws of size and of data: fitted on a part of the
    grid, they predict it for more compute.

    Measured: the least error that the laws predict for each of the four largest amounts of compute on the grid, divided
    by the least one on the grid, as a mean of logarithms; compute is the product of parameters and prompts.

    Control: no law: the least error for the largest compute of the part that is fitted.

    Rival: the law of data alone, for the largest model that is fitted, with all further compute spent on prompts.

    Settings: the grid of `note-scaling-size` and `note-scaling-data`, of which the three smallest sizes and amounts are
    fitted: `a m^-α + b m^p B^-β`.
    """
    result = trained(trial)
    whole = result.size.unsqueeze(-1) + result.data
    a, alpha = power(SIZES[:FITTED], result.size[:FITTED])
    b, beta = power(DATA[:FITTED], result.data[:FITTED, :FITTED].log().mean(0).exp())
    # The mean over sizes is that of the middle one on a logarithmic scale; others differ by a power of the size.
    p = power(SIZES[:FITTED], result.data[:FITTED, :FITTED].log().mean(1).exp())[1]
    middle = SIZES[FITTED // 2]
    powers = range(int(math.log2(SIZES[0] * DATA[0])), int(math.log2(SIZES[-1] * DATA[-1])) + 1)
    budgets = [2**k for k in powers][-4:]
    last = SIZES[FITTED - 1] * DATA[FITTED - 1]

    def least(budget: int) -> float:
        """The least error on the grid for a budget."""
        return min(float(whole[SIZES.index(m), DATA.index(budget // m)]) for m in SIZES if budget // m in DATA)

    def law(budget: int, sizes: Sequence[int]) -> float:
        return min(a * m**alpha + b * (m / middle) ** p * (budget / m) ** beta for m in sizes if budget // m in DATA)

    known = min(float(whole[i, k]) for i in range(FITTED) for k in range(FITTED) if SIZES[i] * DATA[k] == last)
    alone = SIZES[FITTED - 1]
    data_alone = [a * alone**alpha + b * (alone / middle) ** p * (n / alone) ** beta for n in budgets]
    measured = torch.tensor([least(n) for n in budgets]).log()
    ratios = [
        float((torch.tensor(values).log() - measured).mean().exp())
        for values in ([law(n, SIZES) for n in budgets], [known] * len(budgets), data_alone)
    ]
    lines = {"least error": measured.exp().tolist(), "law": [law(n, SIZES) for n in budgets]}
    plot = Plot("Error and compute", "parameters times prompts", "excess error", budgets, lines, log="xy")
    reported = {"exponent of size": alpha, "exponent of data": beta}
    return Measurement({"predicted": (ratios[0], ratios[1])}, plot, reported, {"predicted": ratios[2]})
