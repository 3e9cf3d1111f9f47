"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): claims about one trained layer, also on
features and on separate tokens. More layers and heads are in `layers`."""

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
"""The loss of one step of gradient descent, half the mean squared error, according to the paper."""


def task() -> Uniform:
    return Uniform(dims=D)


def tested(trial: Trial) -> Sample:
    """Prompts with 10 examples: 2,000 or 10,000."""
    return prompts(trial, task(), trial.size(2000, 10_000), N)


def one_step(trial: Trial) -> LSAModel:
    """One step of gradient descent with the best η."""
    return best_descent(trial, task(), N, 1).model(D)


def theory_loss() -> float:
    """The loss of one step with the best η, half the mean squared error, by the moments of the inputs: `s (d − (s d)² /
    t) / 2`, where `s = E x²` and `t = E tr S²` of `S = Σ x xᵀ / N`; weights are standard normal."""
    second, fourth = 1 / 12, 1 / 80  # of U(−½, ½)
    of_one, of_two = D * fourth + D * (D - 1) * second**2, D * second**2
    return 0.5 * second * (D - (second * D) ** 2 / ((of_one + (N - 1) * of_two) / N))


def alignment(model: Answers, descent: Answers, sample: Sample) -> dict[str, float]:
    """The similarity of a model to gradient descent: in its loss, its sensitivities to the query, its predictions."""
    here, there = (sensitivities(each, sample)[0] for each in (model, descent))
    return {
        "loss": excess(model, descent, sample),
        "cosine": F.cosine_similarity(here, there).mean().item(),
        "difference": (model(sample.xs, sample.ys) - descent(sample.xs, sample.ys)).abs().mean().item(),
    }


@claim("oswald-one-layer", OSWALD, "Figure 2", cost=(1.2, 4), needs=("lsa-1", "lsa-1-shuffled"))
def one_layer(trial: Trial) -> Measurement:
    """A trained layer of linear self-attention is a step of gradient descent: in its loss, in the gradient of its
    predictions by the query, and in its predictions.

    Measured: the relative excess of its loss over that of descent with the best η; the mean cosine of the two gradients
    with respect to the query; the mean distance of the two predictions.

    Control: the same for a model trained on labels of other functions.

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


@claim("oswald-interpolation", OSWALD, "Figure 2, Appendix A.3", cost=(0.6, 2), needs=("lsa-1", "lsa-1-shuffled"))
def interpolation(trial: Trial) -> Measurement:
    """Weights half-way between the trained ones and those of the construction have the loss of gradient descent.

    Measured: the relative excess of the loss of the mixture over that of descent with the best η, clipped at 1.

    Control: the same with a model trained on labels of other functions.

    Settings: as for one layer; both models are rescaled before they are mixed, which can make the weights of a model
    that has learned nothing arbitrarily large: without the clipping, one such mixture would dominate all trials.
    """
    sample, best = tested(trial), one_step(trial)

    def mixed(name: str) -> float:
        return min(1.0, excess(interpolate(trained(trial, name), best), best, sample))

    return Measurement({"loss": (mixed("lsa-1"), mixed("lsa-1-shuffled"))})


@claim("oswald-out-of-distribution", OSWALD, "Figures 2 and 6", cost=(1.2, 15), needs=("lsa-1", "lsa-1-shuffled"))
def out_of_distribution(trial: Trial) -> Measurement:
    """On prompts outside the training distribution, the trained layer has the same errors as gradient descent: with
    larger or smaller inputs or weights, other distributions of inputs, or labels replaced by noise.

    Measured: the largest difference of the logarithms of the two losses, over the four kinds of shift and all their
    strengths.

    Control: the same for a model trained on labels of other functions, on the kind of shift where it differs least.

    Settings: inputs, or weights, times 0.5 to 1.5; normal, Laplace's and exponential inputs of the usual mean square;
    2, 4, 6 or 8 of 10 labels from N(0, 1). 10 dimensions, 10 examples, 2,000 or 10,000 prompts for each, float64. The
    paper's inputs go up to a factor of 2, its weights to 5; the difference for these is also reported.
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
        """The differences of the logarithms of the losses, for each kind of shift."""
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
    """The dependence of the first layer's outputs on the token's partner, relative to that on other tokens: `(2,
    prompts)`.

    First at inputs, with the label after them as partner, then at labels, with the input before them. Measured by the
    norms of the derivatives of `(x, y)` after the layer with respect to `(x, y)` before it; without positions, and
    without the token itself, which every layer keeps.
    """
    tokens = model.tokens(sample.xs, sample.ys).requires_grad_()
    count, reported = tokens.shape[1], model.dims + model.outputs
    at = torch.arange(count - 1)  # without the query, which has no label
    after = model.copied(tokens)[:, :-1, :reported].sum(0)  # prompts are independent
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
    """The trained model with separate tokens for inputs and labels, in float64."""
    model = trial.trained("copying").double().requires_grad_(False)
    assert isinstance(model, SeparateModel)
    return model


@claim("oswald-copying", OSWALD, "Figure 5", cost=(2.4, 5), needs=("copying",))
def copying(trial: Trial) -> Measurement:
    """If inputs and labels are separate tokens, the first of two layers learns to copy to each input the label after
    it.

    Measured: the dependence of the first layer's output at an input on its label, divided by that on the other tokens
    on average, by the norms of derivatives.

    Control: the same for the untrained model.

    Settings: 10 dimensions, 10 examples as 21 tokens, inputs U(−½, ½); 8 or 32 prompts, float64. The paper measures
    before the loss has fallen; this is measured after the training, as no earlier weights are stored. Also measured:
    the same at labels, for the inputs before them, which would serve equally.
    """
    sample = prompts(trial, task(), trial.size(8, 32), N)
    untrained = build(trial.recipe("copying")).to(sample.xs)
    assert isinstance(untrained, SeparateModel)
    result, control = (brought_together(m, sample) for m in (apart(trial), untrained))
    return Measurement({"ratio": (result[0], control[0])}, reported={"at labels": result[1].mean().item()})


@claim("oswald-separate-tokens", OSWALD, "Section 5, Figure 5", cost=(1.8, 16), needs=("copying",))
def separate_tokens(trial: Trial) -> Measurement:
    """If inputs and labels are separate tokens, two trained layers do as well as one step of gradient descent: the
    first has to copy labels to their inputs.

    Measured: the relative excess of their loss over that of one step with the best η.

    Control: the same layers without position encodings, so that labels cannot be assigned to inputs.

    Settings: softmax attention, then linear; 10 dimensions, 10 examples as 21 tokens, inputs U(−½, ½); 2,000 or 10,000
    prompts, float64. Also measured: the same against the best two equal steps, and the similarity of predictions and
    gradients to those of one step.
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
    """The correlation of a prediction's derivatives by the labels with the inner products of their inputs and the
    query."""
    products = (sample.xs[:, :-1] @ sample.xs[:, -1:].mT).flatten()
    return torch.corrcoef(torch.stack([sensitivities(model, sample)[1].flatten(), products]))[0, 1].item()


@claim(
    "oswald-example-weights",
    OSWALD,
    "Proposition 1, in a trained layer",
    cost=(0.6, 2),
    needs=("lsa-1", "lsa-1-shuffled"),
)
def weights_of_examples(trial: Trial) -> Measurement:
    """A trained layer weights the label of each example as gradient descent does: by the inner product of its input
    with the query.

    Measured: the correlation of the derivatives of predictions by the labels with these products.

    Control: the same for a model trained on labels of other functions.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½); 2,000 or 10,000 prompts, float64.
    """
    sample = tested(trial)
    results = [example_weights(trained(trial, name), sample) for name in ("lsa-1", "lsa-1-shuffled")]
    return Measurement({"correlation": (results[0], results[1])})


@claim("oswald-sine", OSWALD, "Figure 4", cost=(2.4, 10), needs=("sine", "sine-gd"))
def sine(trial: Trial) -> Measurement:
    """An MLP and a layer of linear self-attention, trained on sine waves, do as well as an MLP trained for one step of
    gradient descent on its features.

    Measured: the logarithm of the ratio of the two losses, with its sign.

    Control: the same for gradient descent on the inputs themselves, with the best η.

    Settings: amplitudes 0.1 to 5, 10 examples, 40 features by 160 hidden units; 2,000 or 10,000 prompts, float64.
    """
    waves = trial.recipe("sine").make_task()
    sample, shown = (prompts(trial, waves, trial.size(2000, 10_000), N, step) for step in (TESTED, FITTED))
    descent, model = (mean_square(trained(trial, name), sample) for name in ("sine-gd", "sine"))
    raw = mean_square(on_inputs(shown), sample)
    reported = {"loss": model / waves.power, "loss of descent": descent / waves.power}
    return Measurement({"log_ratio": (math.log(model / descent), math.log(raw / descent))}, reported=reported)


def on_inputs(shown: Sample) -> LSAModel:
    """A step of gradient descent with the best step size for these prompts."""
    once = gd_construction(LSAModel(LSA(), shown.xs.shape[2], 1).to(shown.xs), 1.0, N).requires_grad_(False)
    answers, ys = once(shown.xs, shown.ys)[:, -1], shown.ys[:, -1]
    return gd_construction(once, ((answers @ ys) / (answers @ answers)).item(), N)


# After the claims above, so that the ledger has them together.
