"""Olsson et al. 2022: the phase change of a training, in which induction heads form."""

from __future__ import annotations

import torch

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import OLSSON
from inweights.papers.induction_heads._forming import able, formed


@claim("olsson-phase-change", OLSSON, "Argument 1: the phase change", cost=(40, 200))
def phase_change(trial: Trial) -> Measurement:
    """In a narrow window of training in which induction heads form, a model acquires most of its in-context learning;
    one layer shows no such change.

    Measured: `share`: of the decrease of the loss on the last copy over the whole training, what falls in the window in
    which the best prefix-matching score goes from 10% to 90% of its largest value. `window`: its length as a share of
    the training.

    Control: what the loss of a model with one layer decreases in the same window, as a share of the same whole.

    Settings: those of olsson-two-layers, looked at every 10 steps (the paper: every 50 of 10,000). The paper's score is
    the loss of token 500 less that of token 50; here, first copies cannot be predicted, and training ignores them.

    Precondition: an induction head has formed: a prefix-matching score of at least 0.3.
    """
    two, one = formed(trial, "induction-2"), formed(trial, "induction-1")
    able(trial, two)
    begin, end = window(two.prefix)
    whole = two.late[0] - two.late[-1]
    lines = {"two layers": two.late, "one layer": one.late}
    return Measurement(
        {
            "share": ((two.late[begin] - two.late[end]) / whole, (one.late[begin] - one.late[end]) / whole),
            "window": ((end - begin) / len(two.prefix), None),
        },
        plot=Plot("Loss on the last copy", "step", "nats", two.steps, lines),
        reported={"begins at step": two.steps[begin], "ends at step": two.steps[end]},
    )


@claim("olsson-together", OLSSON, "Argument 1: macroscopic co-occurrence", cost=(40, 200))
def together(trial: Trial) -> Measurement:
    """Induction heads form at the same time as in-context learning improves.

    Measured: `changes`: over all intervals of 10 steps, the correlation of the increase of the best prefix-matching
    score with the decrease of the loss on the last copy. `lag`: the number of intervals between the largest increase of
    one and the largest decrease of the other.

    Control: the correlation with the loss of a model with one layer, trained on the same sequences.

    Settings: those of olsson-two-layers. Correlations are of changes: levels of anything that improves in training
    correlate. That of ranks of levels is reported.

    Precondition: an induction head has formed: a prefix-matching score of at least 0.3.
    """
    two, one = formed(trial, "induction-2"), formed(trial, "induction-1")
    able(trial, two)
    rises = torch.tensor(two.prefix).diff()
    falls = [-torch.tensor(each.late).diff() for each in (two, one)]
    with_own, with_other = (torch.corrcoef(torch.stack([rises, f]))[0, 1].item() for f in falls)
    ranks = torch.stack([torch.tensor(values).argsort().argsort().double() for values in (two.prefix, two.late)])
    return Measurement(
        {
            "changes": (with_own, with_other),
            "lag": (float(abs(int(rises.argmax()) - int(falls[0].argmax()))), None),
        },
        reported={"rank correlation of levels": -torch.corrcoef(ranks)[0, 1].item()},
    )


def window(scores: list[float]) -> tuple[int, int]:
    """The look before a score exceeds 10% of its largest value, and the first with at least 90% of it."""
    top = max(scores)
    end = next(k for k, score in enumerate(scores) if score >= 0.9 * top)
    begin = max((k for k in range(end) if scores[k] < 0.1 * top), default=0)
    return begin, end
