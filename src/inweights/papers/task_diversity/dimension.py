"""Raventós et al. 2023: the threshold of task diversity and the dimension, with decoders trained by recipes."""

from __future__ import annotations

import math
from functools import wraps
from hashlib import sha256

from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.training import Recipe, build, changed
from inweights.ledger import Measurement, NotHereError, Plot, Trial, claim, kept, stored
from inweights.papers._papers import RAVENTOS
from inweights.papers._trained_now import weights_of
from inweights.papers.task_diversity.threshold import distances, threshold

DIMS, SIZES = (4, 8), (4, 16, 64, 256, 1024, 4096)


def recipe_of(trial: Trial, dims: int, size: int) -> Recipe:
    """The training on a pool that belongs to the seed of the trial."""
    return changed(trial.recipe(f"pool-{dims}"), [f"task.size={size}", f"task.which={trial.seed}"])


def decoder(trial: Trial, recipe: Recipe) -> Learner:
    """The decoder trained on a pool. All of them take hours on a CPU, so they are trained only if that is asked for."""

    @wraps(weights_of)
    def train() -> dict[str, Tensor]:
        return weights_of(recipe, trial)

    name = f"pool-{trial.seed}-{sha256(recipe.model_dump_json().encode()).hexdigest()[:12]}"
    if not (trial.train or stored(name, train)):
        raise NotHereError("the decoders on pools of tasks are not trained: `claims run --train` trains them")
    model = build(recipe)
    model.load_state_dict(kept(name, train))
    return model.to(trial.device).eval()


@claim("raventos-dimension", RAVENTOS, "Section 3.4: the dimension", cost=(6, 90), needs=("pool-4", "pool-8"))
def dimension(trial: Trial) -> Measurement:
    """The task diversity threshold increases with the dimension of the tasks.

    Measured: the slope of the logarithm of the threshold over that of the dimension, where the threshold is the size of
    the pool at which decoders are as near to dMMSE as to ridge regression.

    Control: the same for the decoder of the largest pool alone, beside dMMSE for each of the smaller pools.

    Settings: d = 4 and 8, 2 d points, noise 0.5; pools of 4 to 4,096 tasks in factors of 4; a decoder of 2 layers of
    width 32, 12,000 steps of 128 prompts by Muon (the paper: 8 layers of width 128, 500,000 of 256); trained on labels
    of queries without noise. 512 prompts (full: 2,048). A threshold below the smallest pool or above the largest counts
    as that pool.
    """
    lines: dict[str, list[float]] = {"own pool": [], "the decoder of the largest pool": []}
    for dims in DIMS:
        models = [decoder(trial, recipe_of(trial, dims, size)) for size in SIZES]
        own = [distances(trial, model, dims, (size,)).against(size) for model, size in zip(models, SIZES, strict=True)]
        largest = distances(trial, models[-1], dims, SIZES)
        for name, line in zip(lines, (own, [largest.against(size) for size in SIZES]), strict=True):
            lines[name].append(threshold(line, SIZES))
    value, control = ((high - low) / math.log2(DIMS[1] / DIMS[0]) for low, high in lines.values())
    plot = Plot("Threshold and dimension", "d", "log2 of the threshold", DIMS, lines, log="x")
    return Measurement({"slope": (value, control)}, plot)
