"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): what more layers and more heads do."""

from __future__ import annotations

import math
from itertools import pairwise

from torch.nn import functional as F

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._descent import Descent, best_descent, best_plus, excess, mean_square, sensitivities, trained
from inweights.papers._papers import OSWALD
from inweights.papers.gradient_descent.trained import D, N, one_step, task, tested

CLIP = 10.0
"""What entries are kept within after every layer where there are more than three, as in the paper; in GD++ as well."""


@claim("oswald-two-layers", OSWALD, "Figure 3a", cost=(2, 5), needs=("lsa-2", "lsa-1"))
def two_layers(trial: Trial) -> Measurement:
    """Two layers with the same weights do better than two steps of gradient descent, and as well as two of GD++.

    Measured: by what part their loss is above (below, if negative) that of the best two equal steps of either.

    Control: the same of the model with one layer.

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
    """The one that is least off from 1."""
    return min(ratios, key=lambda r: abs(math.log(r)))


def farthest(ratios: list[float]) -> float:
    """The one that is most off from 1."""
    return max(ratios, key=lambda r: abs(math.log(r)))


@claim("oswald-gamma", OSWALD, "Appendix A.10, Figure 13", cost=(4, 15), needs=("lsa-2", "lsa-1"))
def gamma(trial: Trial) -> Measurement:
    """In the weights of trained recurrent transformers of two layers γ is 0.179 for ten examples, and 0.099, 0.056 and
    0.029 for 25, 50 and 100.

    Measured: `gamma`, in the weights of the model that was trained with ten examples: the means of the diagonals of
    P W_V and W_Kᵀ W_Q over inputs, multiplied. `best`, as no others were trained: the γ with which two equal steps of
    GD++ leave the least loss, found together with η, divided by the paper's; where it is farthest from 1.

    Control: `gamma` in the weights of one layer, which has no use for it; `best` divided by what the paper has for
    the next number of examples; where it is nearest to 1.

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
    """Five layers, each with weights of its own, do as well as five steps of GD++ with an η and a γ each.

    Measured: by what part their loss is above that of the best GD++ that is found: searches begin at numbers that were
    learned as the layers were, and at eight others, as a training of GD++ ends in local minima.

    Control: the same of the model with two layers.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 prompts (full: 10,000), float64; GD++ is fitted to
    40,000 others (full: 100,000). Also measured: the same against learned GD++, which is what the paper compares with;
    the difference of the losses as a part of what answering 0 loses; and how the two change with the query.
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
    """One head of softmax attention does not reach a step of gradient descent; two come near to it.

    Measured: by what part the loss is above that of descent with the best η: of one head, of two, and by how much it is
    more of one head than of two.

    Control: `one_head` of linear attention with one head, which does reach it; `two_heads` of softmax with one head;
    `gap` of linear attention, which needs no second head.

    Settings: one layer, 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 prompts (full: 10,000), float64.
    """
    sample, descent = tested(trial), one_step(trial)
    one, two, linear, linear_two = (excess(trained(trial, name), descent, sample) for name in HEADS)
    return Measurement({"one_head": (one, linear), "two_heads": (two, one), "gap": (one - two, linear - linear_two)})
