"""Claims of the notes about in-context learning as Bayesian inference."""

from __future__ import annotations

from statistics import fmean

import torch
from torch import Tensor

from inweights.lab.predictors import Nearest, Predictor
from inweights.lab.tasks import Linear
from inweights.lab.training import build
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES

DIMS, EXAMPLES = 5, 10
NOISES = {"ridge-0.5": 0.5, "ridge-1": 1.0, "ridge-2": 2.0}


@claim("note-sufficient", NOTES, "004, section 4.2", cost=(1, 15), needs=tuple(NOISES))
def sufficient(trial: Trial) -> Measurement:
    """What a transformer keeps of a context are the sufficient statistics of the posterior: contexts with the same
    statistics are interchangeable.

    Measured: the mean squared change of a decoder's predictions when its examples are replaced by others with the same
    XᵀX, Xᵀy and n, divided by the change with others that share XᵀX, n and the labels' square sum, but not Xᵀy. A mean
    over three decoders. That less than 5% counts as interchangeable is our choice.

    Control: the untrained decoders.

    Rival: predictions that do not depend on the order of the examples, but on each of them: three nearest neighbours.

    Settings: `ridge-0.5`, `ridge-1` and `ridge-2`, d = 5, 10 examples with noise 0.5, 1 and 2. (X, y) becomes (QX, Qy)
    with a random rotation Q, so that the new examples are as likely as the old ones; in the divisor the labels are
    rotated once more. 512 prompts (full: 4,096).
    """
    models: dict[str, list[Predictor]] = {
        "trained": [trial.trained(name) for name in NOISES],
        "untrained": [build(trial.recipe(name)).to(trial.device) for name in NOISES],
        "neighbours": [Nearest()] * len(NOISES),
    }
    result = {
        name: fmean(changed(trial, model, noise) for model, noise in zip(each, NOISES.values(), strict=True))
        for name, each in models.items()
    }
    return Measurement({"change": (result["trained"], result["untrained"])}, rivals={"change": result["neighbours"]})


def changed(trial: Trial, model: Predictor, noise: float) -> float:
    """The mean squared change of predictions between contexts with equal statistics, over that with others."""
    count = trial.size(512, 4096)
    sample = Linear(dims=DIMS, noise=noise).sample(trial.draw(count), EXAMPLES + 1)
    turn, again = (rotations(trial, count, step).to(sample.xs) for step in (1, 2))

    def answers(turn_x: Tensor | None, turn_y: Tensor | None) -> Tensor:
        xs, ys = sample.xs.clone(), sample.ys.clone()
        if turn_x is not None and turn_y is not None:
            xs[:, :-1] = turn_x @ xs[:, :-1]
            ys[:, :-1] = (turn_y @ ys[:, :-1, None]).squeeze(-1)
        with torch.no_grad():
            return model.predict_prefixes(xs, ys)[:, -1].double()

    before = answers(None, None)
    same, other = (answers(turn, by) - before for by in (turn, again))
    return float(same.square().mean() / other.square().mean())


def rotations(trial: Trial, count: int, step: int) -> Tensor:
    """Random orthogonal matrices, `(count, examples, examples)`."""
    drawn = trial.draw(count, 100 + step, dtype=torch.float64).normal(EXAMPLES, EXAMPLES)
    q, r = torch.linalg.qr(drawn)
    return q * r.diagonal(dim1=1, dim2=2).sign().unsqueeze(1)
