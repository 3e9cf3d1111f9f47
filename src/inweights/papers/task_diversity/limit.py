"""Raventós et al. 2023: the optimal predictor for a pool of tasks, as the pool grows."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.predictors import DiscreteMMSE, Ridge
from inweights.lab.tasks import Pool
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import RAVENTOS

DIMS, POINTS, NOISE = 8, 16, 0.5
SIZES = [2**k for k in (3, 6, 8, 10, 12)]


@claim("raventos-limit", RAVENTOS, "Section 2: dMMSE and Ridge", cost=(0.7, 40))
def limit(trial: Trial) -> Measurement:
    """As the number of pretraining tasks grows, the estimator that is optimal for the pool, dMMSE, approaches ridge
    regression, which is optimal for all tasks.

    Measured: the mean squared difference of their predictions on new tasks for a pool of 2¹² tasks, divided by that for
    2³.

    Control: pools of as many tasks, of which all but 8 are copies.

    Settings: the paper's: d = 8, 16 points, noise 0.5; a pool for each trial; 512 prompts (full: 4,096).
    """
    task = Pool(dims=DIMS, noise=NOISE, size=SIZES[-1], which=trial.seed, fresh=True)
    pool, ridge = task.weights(), Ridge(penalty=NOISE**2)
    samples = [task.sample(trial.draw(128, step), POINTS) for step in range(trial.size(512, 4096) // 128)]
    lines: dict[str, list[float]] = {"tasks": [], "copies of 8": []}
    for size in SIZES:
        for name, tasks in (("tasks", pool[:size]), ("copies of 8", pool[:8].repeat(size // 8, 1))):
            lines[name].append(float(torch.cat([apart(tasks, ridge, s.xs, s.ys) for s in samples]).mean()))
    plot = Plot("dMMSE against ridge", "tasks in the pool", "squared difference / d", SIZES, lines, log="xy")
    value, control = (line[-1] / line[0] for line in lines.values())
    reported = {f"difference at 2^{size.bit_length() - 1}": d for size, d in zip(SIZES, lines["tasks"], strict=True)}
    return Measurement({"left": (value, control)}, plot, reported)


def apart(pool: Tensor, ridge: Ridge, xs: Tensor, ys: Tensor) -> Tensor:
    """The squared difference of dMMSE from ridge regression, divided by d, averaged over points, `(batch,)`."""
    other = DiscreteMMSE(pool=pool, noise=NOISE).predict_prefixes(xs, ys)
    return (other - ridge.predict_prefixes(xs, ys)).square().mean(1) / DIMS
