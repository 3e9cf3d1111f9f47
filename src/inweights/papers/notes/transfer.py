"""Claims of the notes about new tasks: how the risk depends on the number of training tasks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.optimize import nnls
from torch import Tensor

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES

DIMS, NOISE = 5, 0.1
LENGTHS = (5, 10, 20, 40, 80)
TASKS = (8, 32, 128, 512)
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


def risks(
    trial: Trial, counts: Sequence[int], *, different: int | None = None, foreign: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean squared error on new tasks after training on T tasks, `(lengths, counts)`, and after training on as many
    tasks as prompts, `(lengths,)`.

    - `different`: the number of distinct tasks among the T; the others are copies of them.
    - `foreign`: contexts are those of another prompt's task.
    """
    prompts, random, result = trial.size(20_000, 60_000), trial.generator(), []
    pool, many, new = (drawn(random, rows, DIMS) for rows in (max(counts), prompts, prompts))
    rows = torch.arange(prompts)
    tasks = [pool[rows % T % (different or T)] for T in counts] + [many]
    for n in LENGTHS:
        seen, asked = Prompts(random, prompts, n), Prompts(random, prompts, n)
        shift = int(foreign)
        inputs, truth, line = asked.attended(new.roll(shift, 0)), asked.truth(new), []
        for w in tasks:  # trained to convergence: least squares
            A = seen.attended(w.roll(shift, 0))
            line.append((inputs @ torch.linalg.solve(A.mT @ A, A.mT @ seen.truth(w)) - truth).square().mean())
        result.append(torch.stack(line))
    table = torch.stack(result)
    return table[:, :-1], table[:, -1]


def foretold(risk: Tensor) -> Tensor:
    """The best fit a/√T + b/√n of risks `(lengths, tasks)`, relative to them; a and b at least 0."""
    n, T = (torch.tensor(v, dtype=risk.dtype) for v in (LENGTHS, TASKS))
    parts = ((T**-0.5).expand_as(risk), (n**-0.5).unsqueeze(-1).expand_as(risk))
    shares = torch.stack([(p / risk).flatten() for p in parts], 1)
    fitted, _ = nnls(shares.numpy(), torch.ones(len(shares)).numpy())
    return (shares @ torch.from_numpy(fitted)).view_as(risk)


def misfit(risk: Tensor) -> float:
    """The largest relative deviation of risks from the fit."""
    return float((foretold(risk) - 1).abs().max())


@claim("note-transfer-risk", NOTES, "004, section 3.3", cost=(10, 40))
def transfer_risk(trial: Trial) -> Measurement:
    """After T tasks and with n examples, the risk on a new task is task complexity / √T + context error / √n.

    Measured: the largest relative deviation, over all T and n, of the mean squared error on new tasks from the best
    a/√T + b/√n, with a and b fitted here.

    Control: contexts of another prompt's task, from which nothing can be learned.

    Settings: T = 8, 32, 128, 512; n = 5, 10, 20, 40, 80; linear functions of 5 dimensions, noise 0.1. One layer of
    linear self-attention, trained to convergence, as least squares by LAPACK, on 20,000 prompts (full: 60,000) of these
    tasks; measured on as many prompts of new tasks.
    """
    (result, _), (foreign, _) = risks(trial, TASKS), risks(trial, TASKS, foreign=True)
    lines = {
        f"{T} tasks{whose}": foretold(risk)[:, k].tolist()
        for risk, whose, some in ((result, "", TASKS), (foreign, ", contexts of another", TASKS[:1]))
        for k, T in enumerate(some)
    }
    plot = Plot("The best a/√T + b/√n for the risk", "examples", "share of the risk", LENGTHS, lines, log="xy")
    return Measurement({"misfit": (misfit(result), misfit(foreign))}, plot)


@claim(
    "note-transfer-corrected", NOTES, "004, section 3.3, corrected", cost=(10, 40), repeats="note-transfer-risk"
)  # fmt: skip
def transfer_corrected(trial: Trial) -> Measurement:
    """The risk on a new task exceeds the least possible by at most about √(log N/T), N the size of the class of
    algorithms (Li et al. 2023): this excess falls with the number of tasks at least as fast as 1/√T.

    Measured: the slope of the logarithm of the excess, relative to the least risk and averaged over the lengths,
    against the logarithm of T.

    Control: T tasks of which all but 8 are copies.

    Settings: as in `note-transfer-risk`, but T = 8, 16, … 128, beyond which the excess is smaller than the sampling
    noise of the prompts. The least possible risk is that of training on as many tasks as prompts, on the same prompts.
    Their bound is an upper bound, and so is the criterion.
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
