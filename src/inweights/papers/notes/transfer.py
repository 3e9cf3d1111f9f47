"""Claims of the notes about new tasks: how the risk depends on the number of training tasks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES

DIMS, NOISE = 5, 0.1
LENGTHS = (5, 10, 20, 40, 80)
FEWER = (8, 16, 32, 64, 128)
"""Numbers of tasks for which the excess is larger than the sampling noise of the prompts."""


def drawn(random: torch.Generator, *shape: int) -> Tensor:
    """Standard normal, float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


class Prompts:
    """Contexts of n examples, and queries `(count, dims)`, for any tasks."""

    def __init__(self, random: torch.Generator, count: int, n: int) -> None:
        X, noise = drawn(random, count, n, DIMS), NOISE * drawn(random, count, n, 1)
        self.gram, self.noise, self.queries = X.mT @ X / n, X.mT @ noise / n, drawn(random, count, DIMS)

    def attended(self, w: Tensor) -> Tensor:
        """All products of a query with `Xᵀy / n`, `(count, dims²)`, for contexts of tasks `(count, dims)`: the
        prediction of linear self-attention is a linear combination of them."""
        context = self.gram @ w.unsqueeze(-1) + self.noise
        return (self.queries.unsqueeze(-1) * context.mT).flatten(1)

    def truth(self, w: Tensor) -> Tensor:
        """The labels of queries without noise, `(count,)`."""
        return (self.queries * w).sum(-1)


def risks(trial: Trial, counts: Sequence[int], *, different: int | None = None) -> tuple[Tensor, Tensor]:
    """The mean squared error on new tasks after training on T tasks, `(lengths, counts)`, and after training on as many
    tasks as prompts, `(lengths,)`.

    `different` is the number of distinct tasks among the T; the others are copies of them.
    """
    prompts, random, result = trial.size(20_000, 60_000), trial.generator(), []
    pool, many, new = (drawn(random, rows, DIMS) for rows in (max(counts), prompts, prompts))
    rows = torch.arange(prompts)
    tasks = [pool[rows % T % (different or T)] for T in counts] + [many]
    for n in LENGTHS:
        seen, asked = Prompts(random, prompts, n), Prompts(random, prompts, n)
        inputs, truth, line = asked.attended(new), asked.truth(new), []
        for w in tasks:  # trained to convergence: least squares
            A = seen.attended(w)
            line.append((inputs @ torch.linalg.solve(A.mT @ A, A.mT @ seen.truth(w)) - truth).square().mean())
        result.append(torch.stack(line))
    table = torch.stack(result)
    return table[:, :-1], table[:, -1]


@claim("note-transfer-risk", NOTES, "004, section 3.3", cost=(10, 170))
def transfer_risk(trial: Trial) -> Measurement:
    """The risk on a new task falls with the number T of training tasks as task complexity / √T: as the rate of an upper
    bound, which is what the theorem has that the note summarises (Li et al. 2023).

    Measured: the slope of the logarithm of the excess, relative to the least risk and averaged over the lengths,
    against the logarithm of T.

    Control: T tasks of which all but 8 are copies.

    Settings: T = 8, 16, … 128, beyond which the excess is smaller than the sampling noise of the prompts; n = 5, 10,
    20, 40, 80 examples; linear functions of 5 dimensions, noise 0.1. One layer of linear self-attention, trained to
    convergence, as least squares by LAPACK, on 20,000 prompts (full: 60,000); measured on as many prompts of new tasks.
    The least possible risk is that of training on as many tasks as prompts, on the same prompts. Read as an equation
    with two constants, the note's formula deviates by more than 10%; it states none.
    """
    (result, best), (copies, _) = risks(trial, FEWER), risks(trial, FEWER, different=8)
    excess = {
        "T tasks": (result / best.unsqueeze(-1)).mean(0) - 1,
        "copies of 8 tasks": (copies / best.unsqueeze(-1)).mean(0) - 1,
    }
    value, control = (exponent(line) for line in excess.values())
    lines = {name: line.tolist() for name, line in excess.items()}
    plot = Plot("Excess risk on new tasks", "tasks", "share of the least risk", FEWER, lines, log="xy")
    return Measurement({"exponent": (value, control)}, plot)


def exponent(excess: Tensor) -> float:
    """The slope of the logarithm of the excess, one for each of `FEWER`, against the logarithm of T, by least
    squares."""
    logs = torch.tensor(FEWER, dtype=excess.dtype).log()
    logs = logs - logs.mean()
    return float((excess.log() * logs).sum() / logs.square().sum())
