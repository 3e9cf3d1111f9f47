"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): what is written down, and exact.

What trained models do is in `gradient_descent_trained`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.claims._claim import Found, Plot, claim
from inweights.claims._descent import best_descent
from inweights.claims._papers import OSWALD
from inweights.claims._trial import Trial
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

D = N = 10
STEPS = (1, 2, 5)
ETA = 3.0


def drawn(trial: Trial, outputs: int = 1, examples: int = N) -> tuple[Tensor, Tensor]:
    """Prompts of so many linear functions, in double: `(batch, examples + 1, 10)`, `(batch, examples + 1, outputs)`."""
    draw = trial.draw(trial.size(64, 512), dtype=torch.float64)
    xs = Uniform(dims=D).inputs(draw, examples + 1)
    return xs, xs @ draw.normal(D, outputs)


def last(predictor: Predictor, xs: Tensor, ys: Tensor) -> Tensor:
    """The answers of a predictor of one label at the last point, for each of several: `(batch, 1, outputs)`."""
    return Outputs(of=predictor).predict_prefixes(xs, ys)[:, -1:]


def largest(difference: Tensor) -> float:
    return difference.abs().max().item()


@claim("oswald-construction", OSWALD, "Proposition 1", exact=True, cost=(2, 3))
@torch.no_grad()
def construction(trial: Trial) -> Found:
    """There are weights with which K layers of linear self-attention answer as K steps of gradient descent from zero.

    Measured: the largest difference between the answers, for K = 1, 2 and 5 and for labels of 1 and of 8 numbers.

    Control: the same weights in one layer fewer; and the step of the project's first notes, whose demo divides by the
    sum of squared scores instead of N.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½), 64 or 512 prompts, η = 3, float64.
    """
    errors, controls = [], []
    for outputs in (1, 8):
        xs, ys = drawn(trial, outputs)
        for steps in STEPS:
            wanted = last(GD(rate=ETA, steps=steps), xs, ys)
            errors.append(largest(descending(steps, outputs, xs)(xs, ys) - wanted))
            fewer = descending(steps - 1, outputs, xs)(xs, ys) if steps > 1 else torch.zeros_like(wanted)
            controls.append(largest(fewer - wanted))
        scores = xs[:, :-1] @ xs[:, -1:].mT  # (batch, N, 1)
        demo = scores.mT @ ys[:, :-1] * ETA / scores.square().sum(1, keepdim=True)
        controls.append(largest(demo - last(GD(rate=ETA), xs, ys)))
    return Found({"error": (errors, controls)})


def descending(steps: int, outputs: int, like: Tensor) -> LSAModel:
    return gd_construction(LSAModel(LSA(layers=steps), D, outputs).to(like), ETA, N)


@claim("oswald-construction-plus", OSWALD, "Appendix A.10", exact=True, cost=(1, 1))
@torch.no_grad()
def construction_plus(trial: Trial) -> Found:
    """There are weights with which layers of linear self-attention answer as GD++: while labels take a step of
    gradient descent, inputs go to `(I − γ X Xᵀ) x`.

    Measured: the largest difference between the answers, for 2 and 5 steps that all have other η and γ.

    Control: the same layers without γ, which are plain gradient descent.

    Settings: 10 dimensions, 10 examples, inputs U(−½, ½), 64 or 512 prompts, float64.
    """
    xs, ys = drawn(trial)
    errors, controls = [], []
    for steps in STEPS[1:]:
        eta, gamma = [ETA + i for i in range(steps)], [0.05 * (i + 1) for i in range(steps)]
        model = LSAModel(LSA(layers=steps), D, 1).to(xs)
        wanted = last(GDPlusPlus(rates=tuple(eta), curvatures=tuple(gamma)), xs, ys)
        errors.append(largest(gdpp_construction(model, eta, gamma, N)(xs, ys) - wanted))
        controls.append(largest(gd_construction(model, eta, N)(xs, ys) - wanted))
    return Found({"error": (errors, controls)})


@claim("oswald-mlp", OSWALD, "Proposition 2", exact=True, cost=(1, 1))
@torch.no_grad()
def mlp(trial: Trial) -> Found:
    """A wide layer m and a layer of linear self-attention after it can answer as a step of gradient descent on
    `Σ |W m(x) − y|²`: descent on features instead of inputs.

    Measured: the largest difference between the answers of the model and of descent on its features, for 1, 2 and 5
    steps.

    Control: descent on the inputs themselves.

    Settings: features of random weights, 10 dimensions to 12 features by 32 hidden units, 10 examples, 64 or 512
    prompts, float64.
    """
    xs, ys = drawn(trial)
    errors, controls = [], []
    for steps in STEPS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            model = MlpLSAModel(MlpLSA(layers=steps, features=12, hidden=32), D, 1).to(xs)
        answers = gd_construction(model, ETA, N)(xs, ys)
        descent = GD(rate=ETA, steps=steps)
        errors.append(largest(answers - last(descent, model.features(xs), ys)))
        controls.append(largest(answers - last(descent, xs, ys)))
    return Found({"error": (errors, controls)})


@claim("oswald-copy", OSWALD, "Proposition 3", exact=True, cost=(1, 1))
@torch.no_grad()
def copy(trial: Trial) -> Found:
    """If inputs and labels are tokens of their own, one layer of softmax attention over positions can bring each label
    to its input; a second layer can then make a step of gradient descent.

    Measured: the largest difference between the tokens after the first layer and `(x, y)`, and between the answers and
    those of gradient descent. The paper says it of linear attention, too; that is not tried here.

    Control: the same weights where tokens do not know their positions.

    Settings: 10 dimensions, 10 examples as 21 tokens, 5 waves, 64 or 512 prompts, η = 3, float64.
    """
    xs, ys = drawn(trial)
    model = copy_construction(SeparateModel(Separate(), D, 1, N + 1).to(xs), ETA, N)

    def error() -> float:
        pairs = model.copied(model.tokens(xs, ys))[:, :-1:2, : D + 1]
        brought = largest(pairs - torch.cat([xs, ys], -1)[:, :-1])
        return max(brought, largest(model(xs, ys) - last(GD(rate=ETA), xs, ys)))

    found = error()
    model.positions.zero_()
    return Found({"error": (found, error())})


PAPER_GAMMA = {10: 0.179, 25: 0.099, 50: 0.056, 100: 0.029}


@claim("oswald-gamma", OSWALD, "Appendix A.10", cost=(2, 12))
def gamma(trial: Trial) -> Found:
    """The γ of GD++ that leaves the least loss after two equal steps is 0.179 for ten examples; it falls with more.

    Measured: the γ that a search finds together with η.

    Control: the same for 25 examples, of which the paper says 0.099.

    Settings: 10 dimensions, inputs U(−½, ½); the loss is a mean over 2,000 or 10,000 prompts, and over all weights and
    queries. A quick run has 10 and 25 examples, a full one also 50 and 100.
    """
    examples = list(PAPER_GAMMA)[: trial.size(2, 4)]
    found = {
        n: best_descent(trial, Uniform(dims=D), n, 2, plus=True, tied=True, count=trial.size(2000, 10_000))
        for n in examples
    }
    gammas = {n: descent.gamma[0].item() for n, descent in found.items()}
    plot = Plot(
        "γ of GD++ with two equal steps",
        "examples N",
        "γ",
        examples,
        {"found": list(gammas.values()), "the paper": [PAPER_GAMMA[n] for n in examples]},
        log="xy",
    )
    told = {"paper": PAPER_GAMMA[10], "eta": N * found[10].eta[0].item()}
    return Found({"gamma": (gammas[10], gammas[25])}, plot, told)


# After the claims above, so that the ledger has them in the order of the paper.
from inweights.claims import gradient_descent_trained as gradient_descent_trained  # noqa: E402
