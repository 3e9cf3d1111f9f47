"""Claims of the notes about what is inside trained linear attention: its weights, momentum, and the mesa-objective."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import PromptSource
from inweights.lab.models import LSAModel
from inweights.lab.tasks import Sample, Shuffled, Uniform
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._asked import asked_weights
from inweights.papers._descent import Answers, Descent, _searched, best_descent, prompts, trained
from inweights.papers._papers import NOTES

D = N = 10
LAYERS = 5
CLIP = 9.9
"""Just below the bound to which entries of five layers are clipped."""


def untrained(trial: Trial, name: str) -> LSAModel:
    """The model of a recipe before any training, in float64."""
    model = build(trial.recipe(name)).double().requires_grad_(False)
    assert isinstance(model, LSAModel)
    return model


def likeness(one: LSAModel, other: LSAModel) -> float:
    """The cosine of the weights of two models with one head, and one layer or equal ones, up to the scale symmetry.

    A head depends only on `O = P W_V` and `C = W_Kᵀ W_Q`, and `s O`, `C / s` are the same head: so the outer products
    of O and C are compared, whose cosine is that of O times that of C. Entries that no prediction depends on are left
    out: of the last layer, all of O but the rows of labels, and of C the columns of the query's label, which is 0.
    """
    outs, compares = zip(*([part[0, 0] for part in model.form.products()] for model in (one, other)), strict=True)
    if one.layers == 1:
        outs, compares = tuple(out[D:] for out in outs), tuple(compare[:, :D] for compare in compares)
    cosines = [F.cosine_similarity(a.flatten(), b.flatten(), dim=0).item() for a, b in (outs, compares)]
    return cosines[0] * cosines[1]


@claim("note-weights", NOTES, "004, section 2.3", cost=(0.4, 6), needs=("lsa-1", "lsa-2", "lsa-1-shuffled"))
def weights(trial: Trial) -> Measurement:
    """The weights of trained transformers are very similar to those of the construction of gradient descent.

    Measured: the cosine of all weights that a prediction depends on, up to the scale symmetry of a head: for one layer,
    with the construction of a step at the best η; for two equal layers, with that of GD++ at the best η and γ. The note
    states no number: 0.95 is our choice.

    Control: one layer trained on labels of other functions; two layers before their training.

    Settings: linear self-attention, 10 dimensions, 10 examples, inputs U(−½, ½), float64. Also measured: the cosine of
    the two layers with the construction of plain descent.
    """
    task = Uniform(dims=D)
    once, plain, plus = (
        best_descent(trial, task, N, steps, plus=plus, tied=True).model(D)
        for steps, plus in ((1, False), (2, False), (2, True))
    )
    one, two = trained(trial, "lsa-1"), trained(trial, "lsa-2")
    return Measurement(
        {
            "one_layer": (likeness(one, once), likeness(trained(trial, "lsa-1-shuffled"), once)),
            "two_layers": (likeness(two, plus), likeness(untrained(trial, "lsa-2"), plus)),
        },
        reported={"two layers, plain descent": likeness(two, plain)},
    )


class Context(NamedTuple):
    """The examples of prompts along the eigenvectors of `Σ x xᵀ`, where steps act on each coordinate alone.

    - `axes`: the eigenvectors, `(batch, dims, dims)`. `values`: the eigenvalues, `(batch, dims)`.
    - `moment`: `Σ x y` along them, `(batch, dims)`.
    """

    axes: Tensor
    values: Tensor
    moment: Tensor

    @classmethod
    def of(cls, sample: Sample) -> Context:
        xs, ys = sample.xs[:, :-1], sample.ys[:, :-1, None]
        values, axes = torch.linalg.eigh(xs.mT @ xs)
        return cls(axes, values, (axes.mT @ xs.mT @ ys).squeeze(-1))

    def along(self, w: Tensor) -> Tensor:
        """Weights `(batch, dims)` along the eigenvectors."""
        return (self.axes.mT @ w.unsqueeze(-1)).squeeze(-1)

    def descended(self, eta: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        """The weights along the eigenvectors, `(batch, dims)`, after GD++ with momentum: step k has the size `eta[k]`,
        adds `beta[k]` times the step before, and changes inputs by `gamma[k]`. With γ = 0 it is descent with momentum,
        with β = 0 it is GD++."""
        w, step, size = torch.zeros_like(self.values), torch.zeros_like(self.values), torch.ones_like(self.values)
        for k in range(len(eta)):
            step = eta[k] * size.square() * (self.moment - self.values * w) + beta[k] * step
            w = w + step
            size = size * (1 - gamma[k] * size.square() * self.values)
        return w


def left_over(context: Context, wanted: Tensor, begin: Descent, *, momentum: bool, tied: bool) -> float:
    """How far the closest descent with momentum, or else GD++, is from weights `(batch, dims)` along the eigenvectors:
    the mean squared distance relative to that of 0, the least of two searches from `begin`."""
    steps, own = len(begin.eta), 1 if tied else len(begin.eta)
    rising = torch.linspace(0.1, 0.6, steps).to(begin.eta)
    seconds = (0.1 * rising, rising) if momentum else (begin.gamma, 0.3 * begin.gamma)

    def missed(eta: Tensor, second: Tensor) -> Tensor:
        eta, second = eta.expand(steps), second.expand(steps)
        none = torch.zeros_like(second)
        w = context.descended(eta, *((none, second) if momentum else (second, none)))
        return (w - wanted).square().sum(-1).mean() / wanted.square().sum(-1).mean()

    results = []
    for second in seconds:
        measured = [begin.eta[:own].clone().requires_grad_(), second[:own].clone().requires_grad_()]
        _searched(measured, partial(missed, *measured))
        results.append(missed(*measured).item())
    return max(min(r for r in results if math.isfinite(r)), 1e-9)  # below this all is rounding


def distances(sample: Sample, model: Answers, plain: Descent, plus: Descent, *, tied: bool) -> tuple[float, float]:
    """The distances of a model's implicit weights from the closest descent with momentum, searched for from plain
    descent, and from the closest GD++, searched for from GD++. Without the rare prompts on which the entries of five
    layers are clipped at ±10, which no formula describes."""
    weights = asked_weights(model, sample.xs, sample.ys)
    kept = weights.abs().amax(-1) < CLIP
    context = Context.of(Sample(sample.xs[kept], sample.ys[kept], {}))
    wanted = context.along(weights[kept])
    by_momentum = left_over(context, wanted, plain, momentum=True, tied=tied)
    return by_momentum, left_over(context, wanted, plus, momentum=False, tied=tied)


@claim("note-momentum", NOTES, "004, section 2.4", cost=(4.1, 120), needs=("lsa-2", "lsa-5", "gdpp-5"))
def momentum(trial: Trial) -> Measurement:
    """A property of GD++, the algorithm of trained layers, is momentum: steps use the direction of earlier ones.

    Measured: the mean squared distance of the implicit weights of trained layers from those of the closest gradient
    descent with momentum, divided by that from the closest GD++, which has none and changes inputs instead. Both have
    as many steps as there are layers and as many parameters, fitted to the layers themselves.

    Control: GD++ in place of the trained layers: the best two equal steps, and five with learned sizes.

    Settings: two layers with the same weights and five with their own, 10 dimensions, 10 examples, inputs U(−½, ½);
    searches from two points, 100 prompts (full: 600), float64. Prompts on which entries are clipped are left out.
    """
    task = Uniform(dims=D)
    sample = prompts(trial, task, trial.size(100, 600), N)
    plus = best_descent(trial, task, N, 2, plus=True, tied=True, count=1000)
    plain = best_descent(trial, task, N, 2, tied=True, count=1000), best_descent(trial, task, N, LAYERS, count=1000)
    five, learned = (trained(trial, name) for name in ("lsa-5", "gdpp-5"))
    of_two = [distances(sample, m, plain[0], plus, tied=True) for m in (trained(trial, "lsa-2"), plus.model(D))]
    of_five = [distances(sample, m, plain[1], Descent.of(m), tied=False) for m in (five, learned)]
    reported = {
        f"{layers} layers, from {what}": pairs[0][i]
        for layers, pairs in ((2, of_two), (LAYERS, of_five))
        for i, what in enumerate(("momentum", "GD++"))
    }
    (two, two_plus), (many, many_plus) = ([a / b for a, b in pairs] for pairs in (of_two, of_five))
    return Measurement({"two_layers": (two, two_plus), "five_layers": (many, many_plus)}, reported=reported)


def truncated(model: LSAModel, layers: int) -> LSAModel:
    """The model with its first layers alone."""
    result = copy.deepcopy(model)
    result.layers = layers
    return result


def after_layers(model: LSAModel, sample: Sample) -> Tensor:
    """The implicit weights before the first layer, which are 0, and after each: `(layers + 1, batch, dims)`."""
    results = [asked_weights(truncated(model, k), sample.xs, sample.ys) for k in range(1, model.layers + 1)]
    return torch.stack([torch.zeros_like(results[0]), *results])


def residuals(w: Tensor, sample: Sample) -> Tensor:
    """What weights `(…, batch, dims)` leave of the labels of the examples: `(…, batch, n)`."""
    return sample.ys[:, :-1] - (sample.xs[:, :-1] @ w.unsqueeze(-1)).squeeze(-1)


def falling(w: Tensor, sample: Sample) -> Tensor:
    """For each prompt the share of layers that reduce the squared error on the examples, `(batch,)`."""
    losses = residuals(w, sample).square().mean(-1)
    return (losses.diff(dim=0) < 0).double().mean(0)


def squared_rather_than_absolute(w: Tensor, sample: Sample) -> float:
    """The mean cosine of each layer's step with the gradient of the squared error on the examples, less that with the
    gradient of the absolute error."""
    xs, left, steps = sample.xs[:, :-1], residuals(w[:-1], sample), w.diff(dim=0)
    of_squares, of_values = ((xs.mT @ r.unsqueeze(-1)).squeeze(-1) for r in (left, left.sign()))
    return (F.cosine_similarity(steps, of_squares, -1) - F.cosine_similarity(steps, of_values, -1)).mean().item()


def absolute_descent(sample: Sample, steps: int) -> Tensor:
    """The weights of gradient descent on the absolute error, `(steps + 1, batch, dims)`."""
    xs, w = sample.xs[:, :-1], torch.zeros_like(sample.xs[:, 0])
    path = [w]
    for _ in range(steps):
        w = w + 0.1 * (xs.mT @ residuals(w, sample).sign().unsqueeze(-1)).squeeze(-1)
        path.append(w)
    return torch.stack(path)


@claim("note-mesa-objective", NOTES, "004, section 2.3", cost=(1.3, 12), needs=("lsa-5",))
def mesa_objective(trial: Trial) -> Measurement:
    """A trained model contains a mesa-optimiser, which minimises an objective of its own in the forward pass: in layers
    of linear attention it is the squared error on the examples of the context.

    Measured: `decrease`: the share of layers that reduce the squared error of the implicit weights on the examples;
    `unlearnable`: the same where every label is of another function, so that nothing is gained for the query;
    `direction`: there, the mean cosine of a layer's step with the gradient of the squared error, less that with the
    gradient of the absolute error.

    Control: the layers before their training; `direction`: descent on the absolute error. The note does not name the
    objective: that it is the squared error on the examples is the reading of von Oswald et al. 2023.

    Settings: five layers with weights of their own, 10 dimensions, 10 examples, inputs U(−½, ½), 500 prompts (full:
    4,000), float64; implicit weights after each layer, measured with all unit vectors as queries.
    """
    model, before = trained(trial, "lsa-5"), untrained(trial, "lsa-5")
    sources: tuple[PromptSource, ...] = (Uniform(dims=D), Shuffled(dims=D))
    learnable, unlearnable = (prompts(trial, source, trial.size(500, 4000), N) for source in sources)
    paths = {name: after_layers(model, sample) for name, sample in (("own", learnable), ("other", unlearnable))}
    lines = {
        "labels of one function": residuals(paths["own"], learnable).square().mean((1, 2)).tolist(),
        "labels of other functions": residuals(paths["other"], unlearnable).square().mean((1, 2)).tolist(),
    }
    plot = Plot("Error on the examples", "layers", "mean squared error", range(LAYERS + 1), lines, log="y")
    return Measurement(
        {
            "decrease": (falling(paths["own"], learnable), falling(after_layers(before, learnable), learnable)),
            "unlearnable": (
                falling(paths["other"], unlearnable),
                falling(after_layers(before, unlearnable), unlearnable),
            ),
            "direction": (
                squared_rather_than_absolute(paths["other"], unlearnable),
                squared_rather_than_absolute(absolute_descent(unlearnable, LAYERS), unlearnable),
            ),
        },
        plot,
    )
