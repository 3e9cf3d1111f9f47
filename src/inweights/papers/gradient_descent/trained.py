"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): what one trained layer does, also on
features and on tokens apart. More layers and heads are in `gradient_descent_layers`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import PromptSource
from inweights.lab.models import LSA, LSAModel, SeparateModel, gd_construction, interpolate
from inweights.lab.tasks import SHIFTS, Sample, Uniform
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._descent import (
    FITTED,
    TESTED,
    Answers,
    NoiseForLabels,
    OtherLaw,
    best_descent,
    excess,
    mean_square,
    prompts,
    sensitivities,
    trained,
)
from inweights.papers._papers import OSWALD

D = N = 10
PAPER_LOSS = 0.2
"""Of one step of gradient descent, half the mean square, as the paper has it."""


def task() -> Uniform:
    return Uniform(dims=D)


def tested(trial: Trial) -> Sample:
    """Prompts with 10 examples: 2,000 or 10,000."""
    return prompts(trial, task(), trial.size(2000, 10_000), N)


def one_step(trial: Trial) -> LSAModel:
    """One step of gradient descent with the best η."""
    return best_descent(trial, task(), N, 1).model(D)


def theory_loss() -> float:
    """Of one step with the best η, half the mean square, by the moments of the inputs: `s (d − (s d)² / t) / 2`, where
    `s = E x²` and `t = E tr S²` of `S = Σ x xᵀ / N`; weights are standard normal."""
    second, fourth = 1 / 12, 1 / 80  # of U(−½, ½)
    of_one, of_two = D * fourth + D * (D - 1) * second**2, D * second**2
    return 0.5 * second * (D - (second * D) ** 2 / ((of_one + (N - 1) * of_two) / N))


def alignment(model: Answers, descent: Answers, sample: Sample) -> dict[str, float]:
    """How near a model is to gradient descent: in its loss, its sensitivities to the query, its answers."""
    here, there = (sensitivities(each, sample)[0] for each in (model, descent))
    return {
        "loss": excess(model, descent, sample),
        "cosine": F.cosine_similarity(here, there).mean().item(),
        "difference": (model(sample.xs, sample.ys) - descent(sample.xs, sample.ys)).abs().mean().item(),
    }


@claim("oswald-one-layer", OSWALD, "Figure 2", cost=(2, 4), needs=("lsa-1", "lsa-1-shuffled"))
def one_layer(trial: Trial) -> Measurement:
    """A trained layer of linear self-attention is a step of gradient descent: in its loss, in how its answers change
    with the query, and in its answers.

    Measured: by what part its loss is above that of descent with the best η; the mean cosine of the two gradients with
    respect to the query; the mean distance of the two answers.

    Control: the same of a model that was trained on labels of other functions.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 or 10,000 prompts, float64.
    """
    sample, descent = tested(trial), one_step(trial)
    model, control = (alignment(trained(trial, n), descent, sample) for n in ("lsa-1", "lsa-1-shuffled"))
    here, there = (sensitivities(each, sample)[0] for each in (trained(trial, "lsa-1"), descent))
    reported = {
        "loss of descent": mean_square(descent, sample) / 2,
        "theory: loss of descent": theory_loss(),
        "paper: loss of descent, about": PAPER_LOSS,
        "distance of the gradients": (here - there).norm(dim=1).mean().item(),
    }
    return Measurement({name: (value, control[name]) for name, value in model.items()}, reported=reported)


@claim("oswald-interpolation", OSWALD, "Figure 2, Appendix A.3", cost=(1, 2), needs=("lsa-1", "lsa-1-shuffled"))
def interpolation(trial: Trial) -> Measurement:
    """Weights half-way between the trained ones and those of the construction have the loss of gradient descent.

    Measured: by what part the loss of the mixture is above that of descent with the best η; 1 where it is more.

    Control: the same with a model that was trained on labels of other functions.

    Settings: as of one layer; both models are brought to one scale before they are mixed, which makes weights that have
    learned nothing as large as any: hence the 1, without which one such mixture would outweigh all trials.
    """
    sample, best = tested(trial), one_step(trial)

    def mixed(name: str) -> float:
        return min(1.0, excess(interpolate(trained(trial, name), best), best, sample))

    return Measurement({"loss": (mixed("lsa-1"), mixed("lsa-1-shuffled"))})


@claim("oswald-out-of-distribution", OSWALD, "Figures 2 and 6", cost=(2, 15), needs=("lsa-1", "lsa-1-shuffled"))
def out_of_distribution(trial: Trial) -> Measurement:
    """On prompts unlike those of its training, the trained layer errs as gradient descent does: where inputs or weights
    are larger or smaller, inputs have another law, or labels are replaced by noise.

    Measured: the largest difference of the logarithms of the two losses, over the four kinds of shift and all their
    strengths.

    Control: the same of a model that was trained on labels of other functions, on the kind where it differs least.

    Settings: inputs, or weights, times 0.5 to 1.5; normal, Laplace's and exponential inputs of the usual mean square;
    2, 4, 6 or 8 of 10 labels from N(0, 1). 10 dimensions, 10 examples, 2,000 or 10,000 prompts for each, float64. The
    paper's inputs go up to a factor of 2, its weights to 5; of these the difference is told beside it.
    """
    factors = torch.linspace(0.5, 1.5, trial.size(5, 11)).tolist()
    scaled = {
        shift: [SHIFTS.make(shift, factor=factor).on(task()) for factor in (*factors, beyond)]
        for shift, beyond in (("scaled-inputs", 2.0), ("scaled-weights", 5.0))
    }
    sources: dict[str, Sequence[PromptSource]] = {
        **scaled,
        "another law": [OtherLaw(law, D) for law in ("normal", "laplace", "exponential")],
        "noise for labels": [NoiseForLabels(task(), count) for count in (2, 4, 6, 8)],
    }
    models = {
        "trained": trained(trial, "lsa-1"),
        "descent": one_step(trial),
        "shuffled": trained(trial, "lsa-1-shuffled"),
    }
    losses: dict[str, dict[str, list[float]]] = {}
    for kind, strengths in sources.items():
        samples = [prompts(trial, source, trial.size(2000, 10_000), N) for source in strengths]
        losses[kind] = {name: [mean_square(model, s) / 2 for s in samples] for name, model in models.items()}

    def away(name: str) -> dict[str, list[float]]:
        """The differences of logarithms, for each kind."""
        return {
            kind: [abs(math.log(a / b)) for a, b in zip(lines[name], lines["descent"], strict=True)]
            for kind, lines in losses.items()
        }

    ours, control = away("trained"), away("shuffled")
    last = {kind: (ours[kind].pop(), control[kind].pop())[0] for kind in scaled}
    reported = {f"{kind}, as far as the paper": value for kind, value in last.items()}
    reported |= {kind: max(values) for kind, values in ours.items()}
    shown = {
        f"{name}, {kind.replace('-', ' ')}": line[: len(factors)]
        for kind in scaled
        for name, line in losses[kind].items()
    }
    plot = Plot("Inputs and weights times a factor", "factor", "loss", factors, shown, log="y")
    largest = max(map(max, ours.values())), min(map(max, control.values()))
    return Measurement({"log_ratio": largest}, plot, reported)


def brought_together(model: SeparateModel, sample: Sample) -> Tensor:
    """How much more the first layer's outputs depend on the token's partner than on others: `(2, prompts)`.

    First at inputs, whose partner is the label after them, then at labels, whose partner is the input before. By the
    norms of the derivatives of `(x, y)` after the layer with respect to `(x, y)` before it; without positions, and
    without the token itself, which every layer keeps.
    """
    tokens = model.tokens(sample.xs, sample.ys).requires_grad_()
    count, reported = tokens.shape[1], model.dims + model.outputs
    at = torch.arange(count - 1)  # the last is the query, which has no label
    after = model.copied(tokens)[:, :-1, :reported].sum(0)  # prompts do not see each other
    squares = torch.zeros(len(tokens), count - 1, count).to(tokens)
    for row, one in enumerate(after):
        for entry in one:
            (slopes,) = torch.autograd.grad(entry, tokens, retain_graph=True)
            squares[:, row] += slopes[..., :reported].square().sum(-1)
    norms = squares.sqrt()
    own, partner = norms[:, at, at], norms[:, at, at ^ 1]
    others = (norms.sum(-1) - own - partner) / (count - 2)
    return torch.stack([partner[:, i::2].mean(1) / others[:, i::2].mean(1) for i in (0, 1)])


def apart(trial: Trial) -> SeparateModel:
    """The trained model that reads inputs and labels as tokens of their own, in double."""
    model = trial.trained("copying").double().requires_grad_(False)
    assert isinstance(model, SeparateModel)
    return model


@claim("oswald-copying", OSWALD, "Figure 5", cost=(4, 5), needs=("copying",))
def copying(trial: Trial) -> Measurement:
    """If inputs and labels are tokens of their own, the first of two layers learns to bring to each input the label
    that comes after it.

    Measured: how much more the first layer's output at an input depends on its label than on the other tokens on
    average, by the norms of derivatives.

    Control: the same of the untrained model.

    Settings: 10 dimensions, 10 examples as 21 tokens, inputs U(−½, ½); 8 or 32 prompts, float64. The paper looks before
    the loss has fallen; this after the training, of which no earlier weights are kept. Also measured: the same at
    labels, of the inputs before them, which would do as well.
    """
    sample = prompts(trial, task(), trial.size(8, 32), N)
    untrained = build(trial.recipe("copying")).to(sample.xs)
    assert isinstance(untrained, SeparateModel)
    result, control = (brought_together(m, sample) for m in (apart(trial), untrained))
    return Measurement({"ratio": (result[0], control[0])}, reported={"at labels": result[1].mean().item()})


@claim("oswald-separate-tokens", OSWALD, "Section 5, Figure 5", cost=(3, 16), needs=("copying",))
def separate_tokens(trial: Trial) -> Measurement:
    """If inputs and labels are tokens of their own, two trained layers do as well as one step of gradient descent: the
    first has to bring labels to their inputs.

    Measured: by what part their loss is above (below, if negative) that of one step with the best η.

    Control: the same layers where tokens do not know their positions, so that no label can find its input.

    Settings: softmax attention, then linear; 10 dimensions, 10 examples as 21 tokens, inputs U(−½, ½); 2,000 or 10,000
    prompts, float64. Also measured: the same against the best two equal steps, and how near the answers and their
    gradients are to those of one step.
    """
    sample, descent, model = tested(trial), one_step(trial), apart(trial)
    two = best_descent(trial, task(), N, 2, tied=True).model(D)
    near = alignment(model, descent, sample)
    reported = {
        "against two steps": excess(model, two, sample),
        "cosine": near["cosine"],
        "difference": near["difference"],
    }
    lost = apart(trial)
    lost.positions.zero_()
    return Measurement({"loss": (near["loss"], excess(lost, descent, sample))}, reported=reported)


def example_weights(model: Answers, sample: Sample) -> float:
    """The correlation of an answer's derivatives by the labels with the products of their inputs and the query."""
    products = (sample.xs[:, :-1] @ sample.xs[:, -1:].mT).flatten()
    return torch.corrcoef(torch.stack([sensitivities(model, sample)[1].flatten(), products]))[0, 1].item()


@claim(
    "oswald-example-weights",
    OSWALD,
    "Proposition 1, in a trained layer",
    cost=(1, 2),
    needs=("lsa-1", "lsa-1-shuffled"),
)
def weights_of_examples(trial: Trial) -> Measurement:
    """A trained layer weighs the label of each example as gradient descent does: by the product of its input with the
    query.

    Measured: the correlation of the derivatives of answers by the labels with these products.

    Control: the same of a model that was trained on labels of other functions.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 or 10,000 prompts, float64.
    """
    sample = tested(trial)
    results = [example_weights(trained(trial, name), sample) for name in ("lsa-1", "lsa-1-shuffled")]
    return Measurement({"correlation": (results[0], results[1])})


@claim("oswald-sine", OSWALD, "Figure 4", cost=(4, 10), needs=("sine", "sine-gd"))
def sine(trial: Trial) -> Measurement:
    """A wide layer and a layer of linear self-attention, trained on sine waves, do as well as a wide layer that was
    trained for one step of gradient descent on its features.

    Measured: the absolute difference of the logarithms of the two losses.

    Control: the same of gradient descent on the inputs themselves, with the best η.

    Settings: amplitudes 0.1 to 5, 10 examples, 40 features by 160 hidden units; 2,000 or 10,000 prompts, float64.
    """
    waves = trial.recipe("sine").make_task()
    sample, shown = (prompts(trial, waves, trial.size(2000, 10_000), N, step) for step in (TESTED, FITTED))
    descent, model = (mean_square(trained(trial, name), sample) for name in ("sine-gd", "sine"))
    raw = mean_square(on_inputs(shown), sample)
    reported = {"loss": model / waves.power, "loss of descent": descent / waves.power}
    return Measurement({"log_ratio": (abs(math.log(model / descent)), abs(math.log(raw / descent)))}, reported=reported)


def on_inputs(shown: Sample) -> LSAModel:
    """A step of gradient descent, of the size that is best for these prompts: answers are proportional to it."""
    once = gd_construction(LSAModel(LSA(), shown.xs.shape[2], 1).to(shown.xs), 1.0, N).requires_grad_(False)
    answers, ys = once(shown.xs, shown.ys)[:, -1], shown.ys[:, -1]
    return gd_construction(once, ((answers @ ys) / (answers @ answers)).item(), N)


# After the claims above, so that the ledger has them together.
