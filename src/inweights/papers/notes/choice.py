"""Claims of the notes about the selection of an algorithm before learning, by noise and linearity."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors import OLS, Choice, KernelRidge, Ridge
from inweights.lab.tasks import Kernel, Linear, Sample, Task
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES

DIMS, EXAMPLES, NOISE = 3, 30, 1.0
KINDS: tuple[Task, ...] = (
    Linear(dims=DIMS, noise=0.05), Linear(dims=DIMS, noise=NOISE), Kernel(dims=DIMS, length=0.5, noise=0.05),
)  # fmt: skip
"""Contexts for which the note names least squares, ridge regression and kernel regression, in this order."""


@claim("note-select", NOTES, "004, section 5.2", cost=(0.4, 20))
@torch.no_grad()
def select(trial: Trial) -> Measurement:
    """Before learning, the noise and the linearity of a context select the algorithm: least squares for linear contexts
    with little noise, ridge regression for linear ones with much, kernel regression for others.

    Measured: `right`, the share of contexts for which the note's rule selects the algorithm that it names;
    `against_one`, the mean squared error of the selection, divided by that of the best of the three used for all
    contexts. Errors are against labels without noise, and each kind of context counts the same.

    Control: the selection of another context, of any kind.

    Settings: d = 3, 30 examples; linear functions with noise 0.05 and 1, draws of a Gaussian process of length √d/2
    with noise 0.05. The note gives neither the tests nor their thresholds: linearity is the error of kernel regression
    over that of ridge regression on examples left out, with the threshold 1; noise is the latter error, with the
    threshold 0.5; penalty 0.25. 128 contexts of each kind (full: 1,024).
    """
    count = trial.size(128, 1024)
    samples = [task.sample(trial.draw(count, step), EXAMPLES + 1) for step, task in enumerate(KINDS)]
    whole = Sample(torch.cat([s.xs for s in samples]), torch.cat([s.ys for s in samples]), {})
    clean = torch.cat([s.hidden["clean"][:, -1] for s in samples])
    chosen = Choice().choose(whole.xs, whole.ys)[:, -1]
    named = torch.arange(len(KINDS)).repeat_interleave(count)
    other = chosen[torch.randperm(len(chosen), generator=trial.generator())]
    errors = squared_errors(whole, clean)
    powers = torch.stack([e.view(len(KINDS), count).mean(1) for e in errors])  # (algorithms, kinds)
    best_of_kind = powers.amin(0)
    single = (powers / best_of_kind).mean(1)

    def relative(choices: Tensor) -> float:
        own = errors.gather(0, choices.unsqueeze(0)).view(len(KINDS), count).mean(1)
        return float((own / best_of_kind).mean() / single.min())

    right = [(choices == named).double() for choices in (chosen, other)]
    reported = {
        f"share of {name}": float((chosen == k).double().mean())
        for k, name in enumerate(("least squares", "ridge", "kernel"))
    }
    return Measurement(
        {"right": (right[0], right[1]), "against_one": (relative(chosen), relative(other))}, reported=reported
    )


def squared_errors(sample: Sample, clean: Tensor) -> Tensor:
    """The squared errors of the three algorithms on the last points, `(3, batch)`."""
    penalty = Choice().penalty
    among = OLS(), Ridge(penalty=penalty), KernelRidge(penalty=penalty, scale=(2 * DIMS) ** 0.5)
    return torch.stack([(p.predict_prefixes(sample.xs, sample.ys)[:, -1] - clean).square() for p in among])
