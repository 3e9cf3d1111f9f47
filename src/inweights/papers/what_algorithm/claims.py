"""Akyürek et al. 2023: what learning algorithm is in-context learning? (arXiv 2211.15661)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab.predictors import OLS, SGD, LinearPredictor, Nearest, Predictor, Ridge, moments
from inweights.lab.tasks import Linear, Sample, Scaled
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._asked import apart as parted
from inweights.papers._asked import asked_weights
from inweights.papers._papers import AKYUREK
from inweights.papers.what_algorithm._written import sherman_morrison as written

DIMS, POINTS = 5, 16
DEPTHS = (1, 2, 4, 8)
# σ, the standard deviation of the noise, and τ, that of the weights, in the training of each.
RIDGES = {
    "ridge-0.5": (0.5, 1.0), "ridge-1": (1.0, 1.0), "ridge-2": (2.0, 1.0),
    "ridge-1-narrow": (1.0, 0.5), "ridge-1-wide": (1.0, 2.0),
}  # fmt: skip
PENALTIES = [2.0**j for j in range(-7, 8)]


@dataclass(frozen=True, kw_only=True)
class Step(LinearPredictor):
    """One step of gradient descent on the sum of squares, as in the paper: `w = 2 α Xᵀy`."""

    rate: float

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        return 2 * self.rate * moments(xs, ys)


PHASES: dict[str, list[LinearPredictor]] = {
    "one gradient step": [Step(rate=r) for r in (0.01, 0.02)],
    "ridge": [Ridge(penalty=p) for p in (0.1, 0.5)],
    "least squares": [OLS()],
}
"""The paper's candidates for the three phases; it also has one pass of SGD and nearest neighbours, no phase."""
OTHERS: list[Predictor] = [SGD(rate=0.01), SGD(rate=0.03), Nearest()]


@claim("akyurek-sherman-morrison", AKYUREK, "Theorem 2", exact=True, cost=(1, 4))
@torch.no_grad()
def sherman_morrison(trial: Trial) -> Measurement:
    """A transformer with a constant number of layers and a width of O(d²) can predict according to one Sherman-Morrison
    update of ridge regression.

    Measured: the distance of a decoder's implicit weights after one example, measured with all unit vectors as queries,
    from those of ridge regression, relative to their norm. The decoder is that of the lab (softmax, GELU, LayerNorm)
    with constructed weights: products by GELU, the division by LayerNorm.

    Control: the same decoder without the division.

    Settings: d = 5 and 8, penalties 0.5 and 1, float64, five layers of width 2 d² + 4 d + 10 (80 and 170). Labels are 1
    and −1, as relative distances are dominated by rounding if the norm is near 0.
    """
    errors: list[Tensor] = []
    controls: list[Tensor] = []
    for dims in (5, 8):
        sample = Linear(dims=dims).sample(trial.draw(trial.size(16, 64), dims, dtype=torch.float64), 2)
        sample = sample._replace(ys=sample.ys.sign())
        for penalty in (0.5, 1.0):
            wanted = Ridge(penalty=penalty).weights(sample.xs, sample.ys)[:, 1]
            for divides, into in ((True, errors), (False, controls)):
                model = written(dims, penalty, divides=divides).to(sample.xs.device)
                into.append(parted(asked_weights(model, sample.xs, sample.ys), wanted))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


@claim("akyurek-ols", AKYUREK, "Section 4.3, Figure 1", needs=("depth-8", "depth-1"), cost=(5, 25))
def ols(trial: Trial) -> Measurement:
    """On labels without noise, a deep transformer predicts like least squares, with the minimum-norm solution if there
    are several; its implicit weights agree too.

    Measured: the mean squared difference of the two predictions for the same queries, divided by d, after 1 to 15
    examples; and that of the weights, divided by d, after 3, 5, … 13: those of a decoder are a linear fit to its
    predictions for 32 other queries.

    Control: a decoder of one layer, trained in the same way.

    Settings: d = 5 (the paper: 8), a decoder of 8 layers of width 40 (16 of 512).
    """
    task = Linear(dims=DIMS)
    sample = task.sample(trial.draw(trial.size(1024, 8192)), POINTS)
    models = trial.trained("depth-8"), trial.trained("depth-1")
    deep, shallow, least, ridge = answers(sample, *models, OLS(), Ridge(penalty=0.1))
    away, control = ((a - least).square() / DIMS for a in (deep, shallow))
    some = task.sample(trial.draw(trial.size(64, 512), 1), POINTS)
    weights = OLS().weights(some.xs, some.ys).double()
    apart_by = [
        torch.stack(
            [(implicit_weights(trial, m, some, n) - weights[:, n]).square().sum(-1) / DIMS for n in range(3, 14, 2)], 1
        ).mean(1)
        for m in models
    ]
    plot = Plot(
        "Distance to least squares", "examples", "squared difference / d", range(1, POINTS),
        {"8 layers": away.mean(0).tolist(), "1 layer": control.mean(0).tolist()}, log="y",
    )  # fmt: skip
    reported = {
        "to ridge, penalty 0.1": apart(deep, ridge),
        "at fewer examples than dimensions": away[:, : DIMS - 1].mean().item(),
    }
    quantities = {"difference": (away.mean(1), control.mean(1)), "weights": (apart_by[0], apart_by[1])}
    return Measurement(quantities, plot=plot, reported=reported)


def implicit_weights(trial: Trial, model: Predictor, sample: Sample, examples: int, queries: int = 32) -> Tensor:
    """The linear fit to a model's predictions after `examples` examples, `(batch, dims)`, in float64."""
    batch = len(sample.xs)
    asked = trial.draw(batch, 2 + examples).normal(queries, DIMS)
    known = sample.xs[:, None, :examples].expand(-1, queries, -1, -1)
    xs = torch.cat([known, asked.unsqueeze(2)], 2).flatten(0, 1)
    ys = F.pad(sample.ys[:, :examples], (0, 1)).repeat_interleave(queries, 0)
    result = model.predict_prefixes(xs, ys)[:, -1].view(batch, queries, 1).double()
    return torch.linalg.lstsq(asked.double(), result).solution.squeeze(-1)


@claim("akyurek-ridge", AKYUREK, "Section 4.3, Figure 2", needs=(*RIDGES, "depth-2"), cost=(0.8, 40))
def ridge(trial: Trial) -> Measurement:
    """On labels with noise, a transformer predicts like ridge regression with the penalty σ²/τ², which is
    Bayes-optimal.

    Measured: for each σ and τ, after 1 to d − 1 examples, on average: `hits`, whether the penalty with predictions
    closest to the decoder's is σ²/τ² or next to it on a grid of powers of 2, from 2⁻⁷ to 2⁷; `distance`, the squared
    difference from the predictions with σ²/τ² itself, divided by d, for the σ and τ where it is largest.

    Control: on the same prompts, a decoder of 2 layers trained without noise; where τ is not 1, the one trained with
    the same noise and τ = 1.

    Settings: d = 5; τ = 1 with σ = 0.5, 1 and 2, and σ = 1 with τ = 0.5 and 2; a decoder of 2 layers of width 32 for
    each, trained on clean labels of the queries (which has the same optimum).
    """
    hits: list[float] = []
    controls: list[float] = []
    far: dict[int, list[float]] = {id(hits): [], id(controls): []}
    reported: dict[str, float] = {}
    for name, (noise, spread) in RIDGES.items():
        wanted = (noise / spread) ** 2
        sample = Scaled(dims=DIMS, noise=noise, spread=spread).sample(trial.draw(trial.size(512, 4096)), DIMS)
        ridges = answers(sample, *(Ridge(penalty=p) for p in PENALTIES))
        for model, into in ((name, hits), ("depth-2" if spread == 1 else "ridge-1", controls)):
            (own,) = answers(sample, trial.trained(model))
            away = [apart(own, r) for r in ridges]
            best = PENALTIES[nearest(away)]
            into.append(float(wanted / 2.01 < best < wanted * 2.01))
            far[id(into)].append(away[PENALTIES.index(wanted)])
            whose = f"σ = {noise:g}, τ = {spread:g}" + (", control" if into is controls else "")
            reported |= {f"penalty at {whose}": best, f"distance to σ²/τ² at {whose}": far[id(into)][-1]}
    distance = max(far[id(hits)]), max(far[id(controls)])
    return Measurement({"hits": (hits, controls), "distance": distance}, reported=reported)


@claim("akyurek-phases", AKYUREK, "Section 4.3, Figure 3", needs=tuple(f"depth-{d}" for d in DEPTHS), cost=(1, 25))
def phases(trial: Trial) -> Measurement:
    """With growing depth, transformers go from one step of gradient descent to ridge regression to least squares.

    Measured: whether the algorithms with predictions closest to those of decoders of growing depth are all three, in
    this order: 1 or 0 for each training.

    Control: the same decoders before their training.

    Settings: d = 5, width 40, 1, 2, 4 and 8 layers (the paper: d = 8 and 16, the best width for each depth), 1 to d − 1
    examples; one step on the sum of squares at the better of the paper's rates, 0.01 and 0.02, ridge regression at the
    better of its penalties, 0.1 and 0.5. Also measured: whether its other candidates, one pass of SGD or the three
    nearest neighbours, are closer than these.
    """
    sample = Linear(dims=DIMS).sample(trial.draw(trial.size(512, 4096)), DIMS)
    theirs = [answers(sample, *each) for each in PHASES.values()]

    def distances(model: Predictor) -> list[float]:
        """The distances from each of the three algorithms, at their best settings."""
        (own,) = answers(sample, model)
        return [min(apart(own, a) for a in each) for each in theirs]

    trained = [distances(trial.trained(f"depth-{d}")) for d in DEPTHS]
    untrained = [distances(build(trial.recipe(f"depth-{d}")).to(trial.device)) for d in DEPTHS]
    lines = {
        f"{name}{when}": [away[i] for away in each]
        for each, when in ((trained, ""), (untrained, ", untrained"))
        for i, name in enumerate(PHASES)
    }
    plot = Plot("Which algorithm is nearest", "layers", "squared difference / d", DEPTHS, lines, log="xy")
    which, control = ([nearest(away) for away in each] for each in (trained, untrained))
    reported = {f"nearest at {d} layers": float(i) for d, i in zip(DEPTHS, which, strict=True)}
    for depth, away in zip(DEPTHS, trained, strict=True):
        (own,) = answers(sample, trial.trained(f"depth-{depth}"))
        reported[f"distance to the nearest, {depth} layers"] = min(away)
        reported[f"distance to SGD or neighbours, {depth} layers"] = min(
            apart(own, a) for a in answers(sample, *OTHERS)
        )
    return Measurement(
        {"order": (float(all_in_order(which)), float(all_in_order(control)))}, plot=plot, reported=reported
    )


def nearest(away: list[float]) -> int:
    """The index of the smallest distance."""
    return away.index(min(away))


def all_in_order(which: list[int]) -> bool:
    """Whether all three indices occur, in ascending order."""
    return which == sorted(which) and set(which) == set(range(len(PHASES)))


def answers(sample: Sample, *predictors: Predictor) -> list[Tensor]:
    """The predictions after 1, 2, … examples, each `(batch, points − 1)`."""
    return [p.predict_prefixes(sample.xs, sample.ys)[:, 1:].double() for p in predictors]


def apart(one: Tensor, other: Tensor) -> float:
    """The mean squared difference of predictions, divided by d."""
    return (one - other).square().mean().item() / DIMS


# Claims about hidden states come after those about predictions.
