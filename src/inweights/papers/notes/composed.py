"""Claims of the notes about composed tasks: two functions in one context, one after the other or side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors import KernelRidge, Predictor, Ridge
from inweights.lab.tasks import Linear, Sine
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES

DIMS, EXAMPLES, WAVE = 5, 15, 10
SCALES, PENALTIES = (1.0, 2.0, 4.0), (1e-3, 1e-1)


def squared(one: Tensor, other: Tensor) -> float:
    """The mean squared difference of predictions `(batch,)`."""
    return float((one.double() - other.double()).square().mean())


@claim("note-two-tasks", NOTES, "004, section 9.2, composition", needs=("depth-8",), cost=(0.9, 5))
def two_tasks(trial: Trial) -> Measurement:
    """Two tasks in one context are not taken apart: a learner of single tasks answers as one regression on the examples
    of both, and far worse than with its own examples alone.

    Measured: the mean squared difference of its predictions from those of least squares on all 15 examples, divided by
    that from the function that the query belongs to. `worse`: its error divided by that with the query's own 8 examples
    alone.

    Control: a method that takes them apart: ridge regression, with a penalty of 0.1, on the query's own examples.

    Settings: two linear functions of 5 dimensions, which alternate; the query belongs to the first one, whose 8
    examples determine it; decoder `depth-8`; 1,024 prompts (full: 8,192).
    """
    draw = trial.draw(trial.size(1024, 8192))
    first, second = (Linear(dims=DIMS).sample(draw, EXAMPLES + 1) for _ in range(2))
    odd = (torch.arange(EXAMPLES + 1) % 2 == 1) & (torch.arange(EXAMPLES + 1) < EXAMPLES)
    ys = torch.where(odd, (first.xs * second.hidden["w"].unsqueeze(1)).sum(-1), first.ys)
    own = first.xs[:, ~odd], first.ys[:, ~odd]
    truth = first.ys[:, -1]
    together = Ridge(penalty=1e-9).predict_prefixes(first.xs.double(), ys.double())[:, -1]
    model, apart = trial.trained("depth-8"), Ridge(penalty=0.1)
    alone = {name: p.predict_prefixes(*own)[:, -1] for name, p in (("model", model), ("apart", apart))}
    mixed = {"model": model.predict_prefixes(first.xs, ys)[:, -1], "apart": alone["apart"]}
    nearer = [squared(answers, together) / squared(answers, truth) for answers in mixed.values()]
    worse = [squared(mixed[name], truth) / squared(alone[name], truth) for name in mixed]
    return Measurement({"nearer": (nearer[0], nearer[1]), "worse": (worse[0], worse[1])})


@claim("note-composition", NOTES, "004, section 9.2, composition", needs=("depth-8", "sine"), cost=(1.9, 15))
@torch.no_grad()
def composition(trial: Trial) -> Measurement:
    """A composed task is learned in context by its parts: a learner of f and one of g in a chain, given the values
    between them, learn g∘f, which no learner of either has seen.

    Measured: the mean squared error of the chain on g(f(x)) divided by that of the best direct method, which has the
    labels alone.

    Control: the chain with the values between them of another prompt.

    Settings: f linear in 5 dimensions (`depth-8`, 15 examples), g a wave a sin(z + phase) (`sine`, 10 of these
    examples); direct methods: `depth-8`, and kernel ridge regression with the best of three scales and two penalties;
    1,024 prompts (full: 8,192). Reported: the chain with the true f(x) of the query.
    """
    draw = trial.draw(trial.size(1024, 8192))
    sample = Linear(dims=DIMS).sample(draw, EXAMPLES + 1)
    middle = sample.ys
    ys = Sine().labels(draw, middle.unsqueeze(-1))[0]
    f, g = trial.trained("depth-8"), trial.trained("sine")

    def second(between: Tensor, query: Tensor) -> Tensor:
        """The prediction of the learner of g, given values between for its examples, and one for its query."""
        zs = torch.cat([between[:, :WAVE], query.unsqueeze(-1)], 1).unsqueeze(-1)
        return g(zs, torch.cat([ys[:, :WAVE], torch.zeros_like(ys[:, :1])], 1))[:, -1]

    def chain(between: Tensor) -> Tensor:
        return second(between, f(sample.xs, between)[:, -1])

    direct: list[Predictor] = [f, *(KernelRidge(scale=s, penalty=p) for s in SCALES for p in PENALTIES)]
    truth = ys[:, -1]
    best = min(squared(p.predict_prefixes(sample.xs, ys)[:, -1], truth) for p in direct)
    power = squared(truth, torch.zeros_like(truth))
    value, control = (squared(chain(between), truth) / best for between in (middle, middle.roll(1, 0)))
    reported = {
        "chain": value * best / power,
        "best direct method": best / power,
        "chain with the true value between": squared(second(middle, middle[:, -1]), truth) / power,
    }
    return Measurement({"against_direct": (value, control)}, reported=reported)
