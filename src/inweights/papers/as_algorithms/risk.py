"""Li et al. 2023: how the risk of linear self-attention depends on the numbers of tasks and of examples."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._bounded import slope
from inweights.papers._papers import LI

DIMS, NOISE = 4, 0.1
TASKS = (32, 64, 128, 256)
LENGTHS = (4, 8, 16, 32)
FIXED = 4
"""The number of examples in the control for lengths."""


def drawn(random: torch.Generator, *shape: int) -> Tensor:
    """Standard normal, float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


class Sequences:
    """Sequences of n examples, one for each row of `w`, `(rows, dims)`; each point is the query after those before it.

    - `inputs`: `(rows, n − 1, dims²)`, all products of a query with the mean of `y x` over the examples before, of
      which a prediction of linear self-attention is a linear combination.
    - `labels`: `(rows, n − 1)`, with noise; a first point, which has no examples, is left out.
    """

    def __init__(self, random: torch.Generator, w: Tensor, n: int) -> None:
        rows, dims = w.shape
        xs = drawn(random, rows, n, dims)
        ys = (xs @ w.unsqueeze(-1)).squeeze(-1) + NOISE * drawn(random, rows, n)
        seen = torch.arange(1, n, dtype=xs.dtype).unsqueeze(-1)
        means = (xs * ys.unsqueeze(-1)).cumsum(1)[:, :-1] / seen
        self.inputs = (xs[:, 1:].unsqueeze(-1) * means.unsqueeze(-2)).flatten(2)
        self.labels = ys[:, 1:]

    def fitted(self) -> Tensor:
        """The weights of the least mean squared error over all points of all sequences, `(dims²,)`: the result of a
        training to convergence."""
        A, b = self.inputs.flatten(0, 1), self.labels.flatten()
        return torch.linalg.solve(A.mT @ A, A.mT @ b)

    def risk(self, weights: Tensor) -> float:
        """The mean squared error over all points of all sequences."""
        return (self.inputs @ weights - self.labels).square().mean().item()


def excess(trial: Trial, tasks: int, length: int, *, different: int | None = None) -> float:
    """The risk on new sequences of the training tasks after training on one sequence of each, less the least possible
    risk there; averaged over several sets of tasks.

    `different`: the number of different sequences among the training sequences; the others are copies.
    """
    random, results = trial.generator(), []
    for _ in range(trial.size(16, 80)):
        w = drawn(random, tasks, DIMS)
        own = different or tasks
        trained = Sequences(random, w[:own], length)
        again = torch.arange(tasks) % own
        trained.inputs, trained.labels = trained.inputs[again], trained.labels[again]
        many = w[again].repeat_interleave(4096 // tasks, 0)
        best, new = Sequences(random, many, length).fitted(), Sequences(random, many, length)
        results.append(new.risk(trained.fitted()) - new.risk(best))
    return sum(results) / len(results)


@claim("li-multitask", LI, "Theorem 3.5", cost=(24, 180))
def multitask(trial: Trial) -> Measurement:
    """The excess multi-task risk of in-context learning falls as 1/√(n T) with the number T of training tasks and the
    length n of their sequences: as the rate of an upper bound.

    Measured: the slope of the logarithm of the excess risk on new sequences of the training tasks, over that of the
    best weights for them: `in_tasks` against log T at n = 8, `in_length` against log n at T = 128.

    Control: `in_tasks`: T sequences of which all but 32 are copies; `in_length`: sequences of 4 points, whatever n.

    Settings: T = 32, 64, 128, 256, one sequence each; n = 4, 8, 16, 32, a loss at every point; linear functions of 4
    dimensions, noise 0.1; one layer of linear self-attention, trained to convergence as least squares, 16 sets of tasks
    (full: 80).
    """
    by_tasks = {
        "T tasks": [excess(trial, T, 8) for T in TASKS],
        "copies of 32": [excess(trial, T, 8, different=32) for T in TASKS],
    }
    by_length = [[excess(trial, 128, n) for n in LENGTHS], [excess(trial, 128, FIXED) for _ in LENGTHS]]
    plot = Plot("Excess multi-task risk", "tasks", "mean squared error", TASKS, by_tasks, log="xy")
    value, control = (slope(TASKS, line) for line in by_tasks.values())
    longer, fixed = (slope(LENGTHS, line) for line in by_length)
    reported = {f"excess at n = {n}": e for n, e in zip(LENGTHS, by_length[0], strict=True)}
    return Measurement({"in_tasks": (value, control), "in_length": (longer, fixed)}, plot, reported)


WIDTHS = (4, 6, 8)
PER_DIM = (1, 2)
"""Lengths n / d."""
PER_SQUARE = (0.25, 0.5, 1.0, 2.0)
"""Numbers of tasks T / d²."""


def asked_last(random: torch.Generator, w: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The inputs of linear self-attention, as in `Sequences`, for one query after `length` examples of each row of `w`,
    and its label without noise."""
    X, query = drawn(random, len(w), length, w.shape[1]), drawn(random, *w.shape)
    y = X @ w.unsqueeze(-1) + NOISE * drawn(random, len(w), length, 1)
    means = (X.mT @ y / length).squeeze(-1)
    return (query.unsqueeze(-1) * means.unsqueeze(-2)).flatten(1), (query * w).sum(-1)


def transfer(random: torch.Generator, dims: int, tasks: int, length: int, *, once: bool = False) -> float:
    """The risk on new tasks, divided by d: the mean squared error for a query after `length` examples.

    Trained on 60 d² prompts of `tasks` tasks, as many for each weight in all dimensions; or with `once` on one sequence
    of each task, with a loss at every point."""
    prompts, pool = 60 * dims**2, drawn(random, tasks, dims)
    if once:
        weights = Sequences(random, pool, length + 1).fitted()
    else:
        A, b = asked_last(random, pool[torch.arange(prompts) % tasks], length)
        weights = torch.linalg.solve(A.mT @ A, A.mT @ b)
    inputs, truth = asked_last(random, drawn(random, prompts, dims), length)
    return (inputs @ weights - truth).square().mean().item() / dims


def spread(
    trial: Trial, tasks: Callable[[int, float], int], lengths: Callable[[int, int], int], *, once: bool = False
) -> Tensor:
    """The logarithms of transfer risks, `(widths, lengths, numbers of tasks)`, where the two functions give the number
    of tasks and the length for a number of dimensions and a coordinate."""
    random, sets = trial.generator(), trial.size(3, 16)

    def middle(d: int, k: int, c: float) -> float:
        risks = [math.log(transfer(random, d, tasks(d, c), lengths(d, k), once=once)) for _ in range(sets)]
        return sum(risks) / sets

    grid = [[[middle(d, k, c) for c in PER_SQUARE] for k in PER_DIM] for d in WIDTHS]
    return torch.tensor(grid, dtype=torch.float64)


def between(logs: Tensor) -> float:
    """The share of the variance at a length that lies between dimensions at equal numbers of tasks, over all
    lengths."""
    total = (logs - logs.mean((0, 2), keepdim=True)).square().sum()
    return ((logs - logs.mean(0, keepdim=True)).square().sum() / total).item()


@claim("li-collapse", LI, "Section 5, Figure on transfer risk", cost=(18, 160))
def collapse(trial: Trial) -> Measurement:
    """The transfer risks of all dimensions d collapse to one curve if they are plotted against n/d and T/d².

    Measured: of the variance of the logarithm of the risk per dimension at a given n/d, the share between dimensions at
    equal T/d².

    Control: at equal n and T, as they are.

    Rival: the same at equal n/d and T: that scaling the length alone would do.

    Settings: d = 4, 6, 8, n/d = 1 and 2, T/d² = 0.25, 0.5, 1, 2 (control and rival: the n and T that these are at d =
    6); noise 0.1, one layer of linear self-attention, trained to convergence as least squares on 60 d² prompts;
    geometric mean over 3 sets of tasks (full: 16). The paper trains GPT-2 of three sizes and says that the size does
    not matter; this is a far smaller transformer. Also measured: the share after training on one sequence of each task,
    with T/d² = 1, 2, 4, 8.
    """
    middle = WIDTHS[1]
    scaled: Callable[[int, int], int] = lambda d, k: k * d  # noqa: E731
    value = spread(trial, lambda d, c: round(c * d * d), scaled)
    control = spread(trial, lambda d, c: round(c * middle**2), lambda d, k: k * middle)
    rival = spread(trial, lambda d, c: round(c * middle**2), scaled)
    once = spread(trial, lambda d, c: round(4 * c * d * d), scaled, once=True)
    lines = {f"d = {d}": value[i, 1].exp().tolist() for i, d in enumerate(WIDTHS)}
    plot = Plot("Transfer risk at n = 2 d", "tasks / d²", "mean squared error / d", PER_SQUARE, lines, log="xy")
    return Measurement(
        {"share": (between(value), between(control))},
        plot,
        {"one sequence of each task": between(once)},
        {"share": between(rival)},
    )
