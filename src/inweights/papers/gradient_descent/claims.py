"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): exact constructions.

Claims about trained models are in `trained` and `layers`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.models import (
    LSA,
    LSAModel,
    MlpLSA,
    MlpLSAModel,
    Separate,
    SeparateModel,
    copy_construction,
    gd_construction,
    gdpp_construction,
)
from inweights.lab.predictors import GD, GDPlusPlus, Outputs, Predictor
from inweights.lab.tasks import Uniform
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import OSWALD

D = N = 10
QUERIES = 16
STEPS = (1, 2, 5)
ETA = 3.0
GAMMA = 0.18
"""About the size of that in trained models, according to the paper."""


def drawn(trial: Trial, outputs: int = 1) -> tuple[Tensor, Tensor]:
    """Prompts of linear functions in double, `(prompts * QUERIES, N + 1, 10)`, `(prompts * QUERIES, N + 1, outputs)`:
    each has the same examples for several queries, as a single prediction may be correct by chance."""
    draw = trial.draw(trial.size(16, 128), dtype=torch.float64)
    inputs = Uniform(dims=D).inputs(draw, N + QUERIES)
    examples = inputs[:, None, :N].expand(-1, QUERIES, -1, -1)
    xs = torch.cat([examples, inputs[:, N:, None]], 2)
    return xs.flatten(0, 1), (xs @ draw.normal(D, outputs).unsqueeze(1)).flatten(0, 1)


def last(predictor: Predictor, xs: Tensor, ys: Tensor) -> Tensor:
    """The predictions of a single-output predictor at the last point, for each output: `(batch, 1, outputs)`."""
    return Outputs(of=predictor).predict_prefixes(xs, ys)[:, -1:]


def farthest(difference: Tensor) -> list[float]:
    """For each prompt the largest entry, over its queries and all else."""
    results: list[float] = difference.abs().unflatten(0, (-1, QUERIES)).flatten(1).amax(1).tolist()
    return results


@claim("oswald-construction", OSWALD, "Proposition 1", exact=True, cost=(2, 3))
@torch.no_grad()
def construction(trial: Trial) -> Measurement:
    """There are weights with which K layers of linear self-attention compute K steps of gradient descent from zero.

    Measured: for each prompt the largest difference between the predictions for its queries, for K = 1, 2 and 5 and for
    labels with 1 and with 8 components.

    Control: the same weights in one layer fewer; and the step of the project's first notes, where the demo divides by
    the sum of squared scores instead of N.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½), 16 prompts of 16 queries (full: 128), η = 3, float64.
    """
    errors: list[float] = []
    controls: list[float] = []
    for outputs in (1, 8):
        xs, ys = drawn(trial, outputs)
        for steps in STEPS:
            wanted = last(GD(rate=ETA, steps=steps), xs, ys)
            errors += farthest(descending(steps, outputs, xs)(xs, ys) - wanted)
            fewer = descending(steps - 1, outputs, xs)(xs, ys) if steps > 1 else torch.zeros_like(wanted)
            controls += farthest(fewer - wanted)
        scores = xs[:, :-1] @ xs[:, -1:].mT  # (batch, N, 1)
        demo = scores.mT @ ys[:, :-1] * ETA / scores.square().sum(1, keepdim=True)
        controls += farthest(demo - last(GD(rate=ETA), xs, ys))
    return Measurement({"error": (errors, controls)})


def descending(steps: int, outputs: int, like: Tensor) -> LSAModel:
    return gd_construction(LSAModel(LSA(layers=steps), D, outputs).to(like), ETA, N)


@claim("oswald-construction-plus", OSWALD, "Appendix A.10", exact=True, cost=(1, 1))
@torch.no_grad()
def construction_plus(trial: Trial) -> Measurement:
    """There are weights with which layers of linear self-attention compute GD++: with each step of gradient descent on
    the labels, inputs become `(I − γ X Xᵀ) x`.

    Measured: for each prompt the largest difference between the predictions for its queries, for 2 and 5 steps, each
    with a different η and γ.

    Control: the same layers without γ, which are plain gradient descent.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½), 16 prompts of 16 queries (full: 128), float64.
    """
    xs, ys = drawn(trial)
    errors: list[float] = []
    controls: list[float] = []
    for steps in STEPS[1:]:
        eta, gamma = [ETA + i for i in range(steps)], [GAMMA + 0.01 * i for i in range(steps)]
        model = LSAModel(LSA(layers=steps), D, 1).to(xs)
        wanted = last(GDPlusPlus(rates=tuple(eta), curvatures=tuple(gamma)), xs, ys)
        errors += farthest(gdpp_construction(model, eta, gamma, N)(xs, ys) - wanted)
        controls += farthest(gd_construction(model, eta, N)(xs, ys) - wanted)
    return Measurement({"error": (errors, controls)})


@claim("oswald-mlp", OSWALD, "Proposition 2", exact=True, cost=(1, 1))
@torch.no_grad()
def mlp(trial: Trial) -> Measurement:
    """An MLP m followed by a layer of linear self-attention can compute a step of gradient descent on `Σ |W m(x) −
    y|²`: descent on features instead of inputs.

    Measured: for each prompt the largest difference between the predictions of the model and of descent on its
    features, for 1, 2 and 5 steps.

    Control: descent on the inputs themselves.

    Settings: features of random weights, 10 dimensions to 12 features by 32 hidden units, 10 examples, 16 prompts
    of 16 queries (full: 128), float64.
    """
    xs, ys = drawn(trial)
    errors: list[float] = []
    controls: list[float] = []
    for steps in STEPS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            model = MlpLSAModel(MlpLSA(layers=steps, features=12, hidden=32), D, 1).to(xs)
        answers = gd_construction(model, ETA, N)(xs, ys)
        descent = GD(rate=ETA, steps=steps)
        errors += farthest(answers - last(descent, model.features(xs), ys))
        controls += farthest(answers - last(descent, xs, ys))
    return Measurement({"error": (errors, controls)})


@claim("oswald-copy", OSWALD, "Proposition 3, Appendix A.5", exact=True, cost=(1, 1))
@torch.no_grad()
def copy(trial: Trial) -> Measurement:
    """If inputs and labels are separate tokens, one layer of softmax attention over positions can copy each label to
    its input; a second layer can then compute a step of gradient descent.

    Measured: for each prompt the largest difference between the tokens after the first layer and `(x, y)`, and between
    the predictions and those of gradient descent. The paper also claims it for linear attention, which is not tested
    here.

    Control: the same weights without position encodings.

    Settings: 10 dimensions, 10 examples as 21 tokens, 5 waves, 16 prompts of 16 queries (full: 128), η = 3, float64.
    """
    xs, ys = drawn(trial)
    model = copy_construction(SeparateModel(Separate(), D, 1, N + 1).to(xs), ETA, N)

    def errors() -> list[float]:
        pairs = model.copied(model.tokens(xs, ys))[:, :-1:2, : D + 1]
        brought = farthest(pairs - torch.cat([xs, ys], -1)[:, :-1])
        return brought + farthest(model(xs, ys) - last(GD(rate=ETA), xs, ys))

    result = errors()
    model.positions.zero_()
    return Measurement({"error": (result, errors())})


# After the claims above, so that the ledger has them in the order of the paper.
