"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): several layers and several heads."""

from __future__ import annotations

import math
from itertools import pairwise

from torch.nn import functional as F

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._descent import Descent, best_descent, best_plus, excess, mean_square, sensitivities, trained
from inweights.papers._papers import OSWALD
from inweights.papers.gradient_descent.trained import D, N, one_step, task, tested

CLIP = 10.0
"""The bound to which entries are clipped after every layer in models of more than three layers, as in the paper; also
in GD++."""


@claim("oswald-two-layers", OSWALD, "Figure 3a", cost=(2, 5), needs=("lsa-2", "lsa-1"))
def two_layers(trial: Trial) -> Measurement:
    """Two layers with the same weights do better than two steps of gradient descent, and as well as two of GD++.

    Measured: the relative excess of their loss over that of the best two equal steps of either.

    Control: the same for the model with one layer.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 or 10,000 prompts, float64.
    """
    sample = tested(trial)
    plain, better = (best_descent(trial, task(), N, 2, plus=plus, tied=True) for plus in (False, True))
    model, control = trained(trial, "lsa-2"), trained(trial, "lsa-1")
    rivals = {"against_gd": plain.model(D), "against_plus": better.model(D)}
    return Measurement(
        {name: (excess(model, rival, sample), excess(control, rival, sample)) for name, rival in rivals.items()},
    )


PAPER_GAMMA = {10: 0.179, 25: 0.099, 50: 0.056, 100: 0.029}


def nearest(ratios: list[float]) -> float:
    """The ratio closest to 1."""
    return min(ratios, key=lambda r: abs(math.log(r)))


def farthest(ratios: list[float]) -> float:
    """The ratio farthest from 1."""
    return max(ratios, key=lambda r: abs(math.log(r)))


@claim("oswald-gamma", OSWALD, "Appendix A.10, Figure 13", cost=(4, 15), needs=("lsa-2", "lsa-1"))
def gamma(trial: Trial) -> Measurement:
    """In the weights of trained recurrent transformers of two layers γ is 0.179 for ten examples, and 0.099, 0.056 and
    0.029 for 25, 50 and 100.

    Measured: `gamma`, in the weights of the model that was trained with ten examples: the means of the diagonals of P
    W_V and W_Kᵀ W_Q over inputs, multiplied. `best`, as no other models were trained: the γ for which two equal steps
    of GD++ have the least loss, optimised together with η, divided by the paper's; where the ratio is farthest from 1.

    Control: `gamma` in the weights of one layer, which has no use for it; `best` divided by the paper's value for the
    next number of examples; where the ratio is closest to 1.

    Settings: 10 dimensions, inputs U(−½, ½); the loss of GD++ is a mean over 2,000 prompts (full: 10,000), and over all
    weights and queries; 10 and 25 examples (full: also 50 and 100).
    """
    examples = list(PAPER_GAMMA)[: trial.size(2, 4)]
    two, one = (Descent.of(trained(trial, name)).gamma[0].item() for name in ("lsa-2", "lsa-1"))
    count = trial.size(2000, 10_000)
    best = {n: best_descent(trial, task(), n, 2, plus=True, tied=True, count=count).gamma[0].item() for n in examples}
    own = [best[n] / PAPER_GAMMA[n] for n in examples]
    others = [best[n] / PAPER_GAMMA[m] for n, m in pairwise(examples)]
    plot = Plot(
        "γ of GD++ with two equal steps",
        "examples N",
        "γ",
        examples,
        {"of the least loss": list(best.values()), "the paper, trained": [PAPER_GAMMA[n] for n in examples]},
        log="xy",
    )
    reported = {"paper": PAPER_GAMMA[10], "of the least loss": best[10]}
    return Measurement({"gamma": (two, one), "best": (farthest(own), nearest(others))}, plot, reported)


@claim("oswald-depth", OSWALD, "Figure 3b", cost=(40, 150), needs=("lsa-5", "gdpp-5", "lsa-2"))
def depth(trial: Trial) -> Measurement:
    """Five layers, each with its own weights, do as well as five steps of GD++ with an η and a γ each.

    Measured: the relative excess of their loss over that of the best GD++ of several searches: these start from
    parameters that were learned like the layers, and from eight others, as training of GD++ ends in local minima.

    Control: the same for the model with two layers.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 prompts (full: 10,000), float64; GD++ is fitted to
    40,000 others (full: 100,000). Also measured: the same against learned GD++, which is what the paper compares with;
    the difference of the losses relative to the loss of answering 0; and the sensitivities of the two to the query.
    """
    sample = tested(trial)
    model, control, learned = (trained(trial, name) for name in ("lsa-5", "lsa-2", "gdpp-5"))
    best = best_plus(trial, task(), N, Descent.of(learned), trial.size(40_000, 100_000)).model(D, CLIP)
    loss, least = (mean_square(each, sample) / 2 for each in (model, best))
    zero = sample.ys[:, -1].square().mean().item() / 2
    reported = {
        "loss": loss,
        "loss of GD++": least,
        "loss of learned GD++": mean_square(learned, sample) / 2,
        "against learned GD++": excess(model, learned, sample),
        "difference, of answering 0": (loss - least) / zero,
    }
    reported |= {
        f"cosine with {name}": F.cosine_similarity(sensitivities(model, sample)[0], sensitivities(each, sample)[0])
        .mean()
        .item()
        for name, each in (("GD++", best), ("learned GD++", learned))
    }
    return Measurement(
        {"against_plus": (excess(model, best, sample), excess(control, best, sample))}, reported=reported
    )


HEADS = ("softmax-1", "softmax-2", "lsa-1", "lsa-1-heads")


@claim("oswald-softmax-heads", OSWALD, "Appendix A.9, Figure 12", cost=(2, 3), needs=HEADS)
def softmax_heads(trial: Trial) -> Measurement:
    """One head of softmax attention does not match a step of gradient descent; two heads come close to it.

    Measured: the relative excess of the loss over that of descent with the best η: for one head, for two, and the
    difference of the two.

    Control: `one_head`: linear attention with one head, which does match it; `two_heads`: softmax with one head; `gap`:
    linear attention, which needs no second head.

    Settings: one layer, 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 prompts (full: 10,000), float64.
    """
    sample, descent = tested(trial), one_step(trial)
    one, two, linear, linear_two = (excess(trained(trial, name), descent, sample) for name in HEADS)
    return Measurement({"one_head": (one, linear), "two_heads": (two, one), "gap": (one - two, linear - linear_two)})
