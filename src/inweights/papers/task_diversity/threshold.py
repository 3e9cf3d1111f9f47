"""Raventós et al. 2023: the threshold of task diversity, and longer training on both sides of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import Decoder, DecoderModel, Learner
from inweights.lab.predictors import DiscreteMMSE, Ridge
from inweights.lab.tasks import Pool
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import RAVENTOS

NOISE, DIMS, SIZES = 0.5, 4, (4, 16, 64, 256)
RIDGE = Ridge(penalty=NOISE**2)


def pool_of(trial: Trial, dims: int, size: int, *, fresh: bool = False) -> Pool:
    """A pool that belongs to the seed of the trial. Pools of a seed are nested: a smaller one is the beginning of a
    larger one."""
    return Pool(dims=dims, noise=NOISE, size=size, which=trial.seed, fresh=fresh)


def decoder(trial: Trial, size: int, part: float = 1.0) -> Learner:
    """A decoder trained on a pool, for all steps or a part of them."""
    task, points = pool_of(trial, DIMS, size), 2 * DIMS

    def build() -> DecoderModel:
        return DecoderModel(Decoder(layers=2, width=32, heads=4, tokens="one"), DIMS, 1, points)

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        sample = task.sample(draw, points)
        return (model(sample.xs, sample.ys) - sample.hidden["clean"]).square().mean() / DIMS

    steps = round(part * trial.size(600, 1200))
    return fitted(trial, f"threshold-{size}", build, loss, steps=steps, batch=32)


class Distances(NamedTuple):
    """Mean squared differences of a decoder's predictions on new tasks, divided by d: from dMMSE for the pool of each
    size, and from ridge regression."""

    dmmse: dict[int, float]
    ridge: float

    def against(self, size: int) -> float:
        """The distance from dMMSE for a pool, divided by that from ridge regression: above 1 it is nearer to ridge."""
        return self.dmmse[size] / self.ridge


@torch.no_grad()
def distances(trial: Trial, model: Learner, dims: int, against: tuple[int, ...]) -> Distances:
    """The distances of a decoder, from dMMSE for some of the pools of the trial."""
    task = pool_of(trial, dims, max(against), fresh=True)
    pool = task.weights()
    samples = [task.sample(trial.draw(256, step), 2 * dims) for step in range(trial.size(2, 8))]
    answers = [model.predict_prefixes(s.xs, s.ys) for s in samples]

    def apart(other: list[Tensor]) -> float:
        return float(torch.cat([(a - o).double().square() for a, o in zip(answers, other, strict=True)]).mean() / dims)

    def known(among: int) -> list[Tensor]:
        return [DiscreteMMSE(pool=pool[:among], noise=NOISE).predict_prefixes(s.xs, s.ys) for s in samples]

    ridge = apart([RIDGE.predict_prefixes(s.xs, s.ys) for s in samples])
    return Distances({among: apart(known(among)) for among in against}, ridge)


def threshold(line: list[float], sizes: tuple[int, ...]) -> float:
    """The logarithm (base 2) of the size at which the ratio first reaches 1, between sizes by straight lines in
    logarithms; the smallest or the largest size if it is 1 at no size between them."""
    logs, heights = [math.log2(s) for s in sizes], [math.log(r) for r in line]
    if heights[0] >= 0:
        return logs[0]
    for a, b, low, high in zip(logs, logs[1:], heights, heights[1:], strict=False):
        if high >= 0:
            return a + (b - a) * low / (low - high)
    return logs[-1]


def rank_correlation(line: list[float]) -> float:
    """Spearman's correlation of a line with its index."""
    ranks = torch.tensor(line).argsort().argsort().double()
    return float(torch.corrcoef(torch.stack([ranks, torch.arange(len(line)).double()]))[0, 1])


@claim("raventos-threshold", RAVENTOS, "Section 3, Figure 2: the threshold", cost=(40, 300))
def located(trial: Trial) -> Measurement:
    """There is a threshold in the number of pretraining tasks: below it a transformer is nearer to dMMSE, the estimator
    with the pool as its prior, above it nearer to ridge regression, and the more tasks, the nearer to ridge.

    Measured: the mean squared difference of its predictions on new tasks from those of dMMSE for its own pool, divided
    by that from ridge regression: for the smallest pool below 1, for the largest one above 1; and the rank correlation
    of this ratio with the size of the pool.

    Control: the decoder of the largest pool alone, beside dMMSE for each of the smaller pools.

    Settings: d = 4, 8 points, noise 0.5 (the paper: d = 8, 16 points); pools of 4, 16, 64 and 256 tasks; a decoder of 2
    layers of width 32, 600 steps of 32 prompts by Adam (full: 1,200; the paper: 8 layers of width 128, 500,000 of 256);
    trained on labels of queries without noise. 512 prompts (full: 2,048).
    """
    models = [decoder(trial, size) for size in SIZES]
    own = [distances(trial, model, DIMS, (size,)).against(size) for model, size in zip(models, SIZES, strict=True)]
    largest = distances(trial, models[-1], DIMS, SIZES)
    control = [largest.against(size) for size in SIZES]
    lines = {"own pool": own, "the decoder of the largest pool": control}
    plot = Plot("Nearer to dMMSE or to ridge", "tasks in the pool", "ratio of distances", SIZES, lines, log="xy")
    return Measurement(
        {
            "few": (own[0], control[0]),
            "many": (own[-1], None),
            "rank": (rank_correlation(own), rank_correlation(control)),
        },
        plot,
        {"threshold, log2": threshold(own, SIZES)},
    )


@claim(
    "raventos-both-sides", RAVENTOS, "Section 3.3: more training on both sides", cost=(40, 200),
    repeats="raventos-longer",
)  # fmt: skip
def both_sides(trial: Trial) -> Measurement:
    """With more training, decoders move towards dMMSE below the threshold and towards ridge regression above it.

    Measured: the distance from dMMSE after all steps, divided by that after a quarter of them, for the smallest pool;
    and the same with ridge regression for the largest.

    Control: the distance from ridge regression for the smallest pool, for both.

    Settings: those of `raventos-threshold`; the shorter training has its own schedule.

    Precondition: after all steps the smallest pool is on one side of the threshold and the largest on the other.
    """

    def after(part: float) -> tuple[Distances, Distances]:
        few, many = (distances(trial, decoder(trial, size, part), DIMS, (size,)) for size in ends)
        return few, many

    ends = SIZES[0], SIZES[-1]
    (few, many), (few_early, many_early) = after(1.0), after(0.25)
    ratios = few.against(ends[0]), many.against(ends[1])
    trial.require(ratios[0] < 1 < ratios[1], f"the ratios of distances are {ratios[0]:.2f} and {ratios[1]:.2f}")
    control = few.ridge / few_early.ridge
    below, above = few.dmmse[ends[0]] / few_early.dmmse[ends[0]], many.ridge / many_early.ridge
    early = {"ratio early, smallest pool": few_early.against(ends[0]), "largest": many_early.against(ends[1])}
    return Measurement({"below": (below, control), "above": (above, control)}, reported=early)
