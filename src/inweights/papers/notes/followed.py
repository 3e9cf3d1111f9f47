"""A claim of the notes about the rule by noise and linearity, beside a model trained on all kinds of contexts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import fmean

import torch
from torch import Tensor

from inweights.lab.predictors import OLS, Choice, KernelRidge, Ridge
from inweights.lab.tasks import Sample
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers.notes.one_model import KINDS, contexts, one_model
from inweights.papers.notes.selection import last

FITTED = {"noise": (0.15, 0.3, 0.6), "linearity": (0.5, 1.0, 2.0), "penalty": (0.02, 0.1, 0.5)}
"""The note's rule without its numbers, which it does not give."""
NAMES = ("least squares", "ridge", "kernel")


def shown(trial: Trial, count: int, step: int) -> Sample:
    """As many contexts of each kind, one kind after the other."""
    samples = [contexts(kind, trial.draw(count, step + k)) for k, kind in enumerate(KINDS)]
    clean = torch.cat([s.hidden["clean"] for s in samples])
    return Sample(torch.cat([s.xs for s in samples]), torch.cat([s.ys for s in samples]), {"clean": clean})


def error(answers: Tensor, sample: Sample) -> float:
    """The mean squared error for the last labels, without noise."""
    return float((answers - sample.hidden["clean"][:, -1]).square().mean())


def fitted_rule(sample: Sample) -> Choice:
    """The rule with the thresholds and the penalty of the least error."""
    rules = [replace(Choice(), **dict(zip(FITTED, values, strict=True))) for values in product(*FITTED.values())]
    return min(rules, key=lambda rule: error(last(rule, sample), sample))


@claim("note-select-trained", NOTES, "004, section 5.2", cost=(40, 420))
def select_trained(trial: Trial) -> Measurement:
    """A transformer that was trained on contexts of several kinds selects as the note's rule does: least squares, ridge
    regression or kernel regression, by noise and linearity.

    Measured: the mean squared difference of the predictions of one decoder from those of the rule, divided by that from
    the closest of the three algorithms, used for all contexts. Each kind of context counts the same: its differences
    are divided by that from the algorithm closest there, and averaged over kinds.

    Control: the rule's selection for another context, of any kind.

    Settings: the decoder and the four kinds of contexts of `note-one-model`: lines with little noise, smooth functions,
    lines with much noise, lines with outliers; 15 examples. The rule is that of `note-select`; its two thresholds and
    the penalty, which the algorithms share, are those of the least error on 64 other contexts of each kind, out of 27.
    512 contexts of each kind (full: 1,024). Also measured: errors against labels without noise, of the decoder, of the
    rule and of each algorithm; and how often the rule selects each of them.
    """
    model, sample = one_model(trial), shown(trial, trial.size(512, 1024), 0)
    rule = fitted_rule(shown(trial, 64, len(KINDS)))
    algorithms = OLS(), Ridge(penalty=rule.penalty), KernelRidge(penalty=rule.penalty, scale=2**0.5)
    each = torch.stack([last(algorithm, sample) for algorithm in algorithms])
    chosen = rule.choose(sample.xs, sample.ys)[:, -1]
    other = chosen[torch.randperm(len(chosen), generator=trial.generator())]
    own = last(model, sample)

    def selected(choices: Tensor) -> Tensor:
        return each.gather(0, choices.unsqueeze(0)).squeeze(0)

    def apart(answers: Tensor) -> Tensor:
        return (own - answers).square().view(len(KINDS), -1).mean(1)

    single = torch.stack([apart(answers) for answers in each])  # (algorithms, kinds)
    closest = single.amin(0)
    value, control = (
        float((apart(selected(c)) / closest).mean() / (single / closest).mean(1).min()) for c in (chosen, other)
    )
    reported = {f"error, {name}": error(a, sample) for name, a in zip(NAMES, each, strict=True)}
    reported |= {"error, decoder": error(own, sample), "error, rule": error(selected(chosen), sample)}
    for k, kind in enumerate(KINDS):
        part = chosen.chunk(len(KINDS))[k].tolist()
        reported |= {f"{kind}: {name}": fmean(float(c == j) for c in part) for j, name in enumerate(NAMES)}
    return Measurement({"nearer": (value, control)}, reported=reported)
