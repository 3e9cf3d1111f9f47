"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): several layers and several heads."""

from __future__ import annotations

from itertools import pairwise

from torch.nn import functional as F

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._descent import Descent, best_descent, best_plus, excess, mean_square, sensitivities, trained
from inweights.papers._papers import OSWALD
from inweights.papers.gradient_descent.trained import D, N, one_step, task, tested

CLIP = 10.0
"""The bound to which entries are clipped after every layer in models of more than three layers, as in the paper; also
in GD++."""


@claim("oswald-two-layers", OSWALD, "Figure 3a", cost=(1.2, 5), needs=("lsa-2", "lsa-1"))
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
    return min(ratios, key=lambda r: abs(r - 1))


def farthest(ratios: list[float]) -> float:
    """The ratio farthest from 1."""
    return max(ratios, key=lambda r: abs(r - 1))


TRAINED = {10: "lsa-2", 25: "lsa-2-25", 50: "lsa-2-50", 100: "lsa-2-100"}
"""The recipes of two equal layers, by the number of examples."""


@claim("oswald-gamma", OSWALD, "Appendix A.10, Figure 13", cost=(2.4, 15), needs=(*TRAINED.values(), "lsa-1"))
def gamma(trial: Trial) -> Measurement:
    """In the weights of trained recurrent transformers of two layers γ is 0.179 for ten examples, and 0.099, 0.056 and
    0.029 for 25, 50 and 100.

    Measured: for each number of examples, the γ in the weights of the models trained with as many, divided by the
    paper's: the means of the diagonals of P W_V and W_Kᵀ W_Q over inputs, multiplied; where the ratio is farthest from
    1.

    Control: the same γ divided by the paper's value for the next number of examples; where the ratio is closest to 1.

    Rival: the formula alone: the γ for which two equal steps of GD++ have the least loss, optimised together with η,
    is also reported; nothing is trained for it.

    Settings: 10 dimensions, inputs U(−½, ½); the loss of GD++ is a mean over 2,000 prompts (full: 10,000), and over all
    weights and queries.
    """
    examples = list(PAPER_GAMMA)
    learned = {n: Descent.of(trained(trial, TRAINED[n])).gamma[0].item() for n in examples}
    one, count = Descent.of(trained(trial, "lsa-1")).gamma[0].item(), trial.size(2000, 10_000)
    best = {n: best_descent(trial, task(), n, 2, plus=True, tied=True, count=count).gamma[0].item() for n in examples}
    own = [learned[n] / PAPER_GAMMA[n] for n in examples]
    others = [learned[n] / PAPER_GAMMA[m] for n, m in pairwise(examples)]
    plot = Plot(
        "γ of GD++ with two equal steps",
        "examples N",
        "γ",
        examples,
        {
            "trained": list(learned.values()),
            "of the least loss": list(best.values()),
            "the paper, trained": [PAPER_GAMMA[n] for n in examples],
        },
        log="xy",
    )
    reported = {f"γ of the least loss, {n} examples": value for n, value in best.items()}
    reported |= {f"γ, {n} examples": value for n, value in learned.items()} | {"γ of one layer": one}
    return Measurement({"gamma": (farthest(own), nearest(others))}, plot, reported)


@claim("oswald-depth", OSWALD, "Figure 3b", cost=(24, 150), needs=("lsa-5-paper", "gdpp-5-paper", "lsa-2"))
def depth(trial: Trial) -> Measurement:
    """Five layers, each with its own weights, do as well as five steps of GD++ with an η and a γ each.

    Measured: the relative excess of their loss over that of learned GD++, with which the paper compares; both trained
    by the paper's settings.

    Control: the same for the model with two layers.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 prompts (full: 10,000), float64. Also measured: the
    same against the best GD++ of several searches, from the learned parameters and eight others, fitted to 40,000 other
    prompts (full: 100,000); and the sensitivities of the models to the query.
    """
    sample = tested(trial)
    model, control, learned = (trained(trial, name) for name in ("lsa-5-paper", "lsa-2", "gdpp-5-paper"))
    best = best_plus(trial, task(), N, Descent.of(learned), trial.size(40_000, 100_000)).model(D, CLIP)
    loss, least = (mean_square(each, sample) / 2 for each in (model, best))
    zero = sample.ys[:, -1].square().mean().item() / 2
    reported = {
        "loss": loss,
        "loss of GD++": least,
        "loss of learned GD++": mean_square(learned, sample) / 2,
        "against the best GD++": excess(model, best, sample),
        "difference from the best, of answering 0": (loss - least) / zero,
    }
    reported |= {
        f"cosine with {name}": F.cosine_similarity(sensitivities(model, sample)[0], sensitivities(each, sample)[0])
        .mean()
        .item()
        for name, each in (("GD++", best), ("learned GD++", learned))
    }
    return Measurement(
        {"against_plus": (excess(model, learned, sample), excess(control, learned, sample))}, reported=reported
    )


HEADS = ("softmax-1", "softmax-2", "lsa-1", "lsa-1-heads")


@claim("oswald-softmax-heads", OSWALD, "Appendix A.9, Figure 12", cost=(1.2, 3), needs=HEADS)
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
