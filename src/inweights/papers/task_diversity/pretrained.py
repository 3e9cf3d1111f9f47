"""Raventós et al. 2023: small decoders pretrained on few tasks and on many, beside dMMSE and ridge regression."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import Decoder, DecoderModel
from inweights.lab.predictors import DiscreteMMSE, Predictor, Ridge
from inweights.lab.tasks import Pool
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import RAVENTOS

DIMS, POINTS, NOISE, FEW = 2, 6, 0.5, 4
RIDGE = Ridge(penalty=NOISE**2)


def pool(trial: Trial, *, fresh: bool) -> Pool:
    """The pool of few tasks of this trial, or new tasks for every prompt."""
    return Pool(dims=DIMS, noise=NOISE, size=FEW, which=trial.seed, fresh=fresh)


def pretrained(trial: Trial, *, few: bool, part: float = 1.0) -> DecoderModel:
    """A decoder trained on the pool or on new tasks, for all steps or a part of them."""
    task = pool(trial, fresh=not few)

    def build() -> DecoderModel:
        return DecoderModel(Decoder(layers=2, width=32, heads=2, tokens="one"), DIMS, 1, POINTS)

    def loss(model: DecoderModel, draw: Draw) -> Tensor:
        sample = task.sample(draw, POINTS)
        return (model(sample.xs, sample.ys) - sample.hidden["clean"]).square().mean()

    steps = round(part * trial.size(800, 3000))
    return fitted(trial, f"pool-{FEW if few else 'new'}", build, loss, steps=steps)


class Answers(NamedTuple):
    """Predictions on the same prompts, and the labels without noise: `(prompts, points)` each."""

    given: dict[str, Tensor]
    clean: Tensor

    def apart(self, one: str, other: str) -> float:
        """The mean squared difference of two predictors, divided by d."""
        return float((self.given[one] - self.given[other]).square().mean() / DIMS)

    def error(self, name: str) -> float:
        """The mean squared error against labels without noise, divided by d."""
        return float((self.given[name] - self.clean).square().mean() / DIMS)


def answers(trial: Trial, models: dict[str, Predictor], *, fresh: bool) -> Answers:
    """Predictions of these models, of ridge regression and of dMMSE for the pool, on new tasks or those of the pool."""
    sample = pool(trial, fresh=fresh).sample(trial.draw(trial.size(2048, 8192)), POINTS)
    known: dict[str, Predictor] = {
        "ridge": RIDGE,
        "dmmse": DiscreteMMSE(pool=pool(trial, fresh=False).weights(), noise=NOISE),
    }
    given = {name: p.predict_prefixes(sample.xs, sample.ys).double() for name, p in (models | known).items()}
    return Answers(given, sample.hidden["clean"].double())


def both(trial: Trial) -> dict[str, Predictor]:
    """The decoders after all steps."""
    return {"few": pretrained(trial, few=True), "many": pretrained(trial, few=False)}


@claim("raventos-few", RAVENTOS, "Section 3.1: below the threshold", cost=(22, 300))
def few(trial: Trial) -> Measurement:
    """Pretrained on few tasks, a transformer behaves like the Bayesian estimator with the pool as its prior, dMMSE,
    also on tasks that are not in the pool.

    Measured: the mean squared difference of its predictions from those of dMMSE on new tasks, divided by that from
    ridge regression.

    Control: a decoder pretrained on new tasks only, beside the same dMMSE.

    Settings: d = 2, 6 points, noise 0.5, 4 tasks (the paper: d = 8, 16 points, 2⁶ and fewer); a decoder of 2 layers of
    width 32, one token for each point, 800 steps of 64 prompts by Adam (full: 3,000; the paper: 8 layers of width 128,
    500,000 of 256); trained on labels of queries without noise. 2,048 prompts (full: 8,192).
    """
    measured = answers(trial, both(trial), fresh=True)
    value, control = (measured.apart(name, "dmmse") / measured.apart(name, "ridge") for name in ("few", "many"))
    reported = {f"{a} from {b}": measured.apart(a, b) for a in ("few", "many") for b in ("dmmse", "ridge")}
    return Measurement({"nearer": (value, control)}, reported=reported)


@claim("raventos-own-tasks", RAVENTOS, "Section 3.1: performance on pretraining tasks", cost=(22, 300))
def own_tasks(trial: Trial) -> Measurement:
    """On the tasks of its own pool, a transformer pretrained on few tasks is better than ridge regression.

    Measured: its mean squared error against labels without noise, divided by that of ridge regression.

    Control: a decoder pretrained on new tasks only.

    Settings: those of `raventos-few`, on tasks of the pool.
    """
    measured = answers(trial, both(trial), fresh=False)
    value, control = (measured.error(name) / measured.error("ridge") for name in ("few", "many"))
    return Measurement(
        {"against_ridge": (value, control)}, reported={"dMMSE": measured.error("dmmse") / measured.error("ridge")}
    )


@claim("raventos-new-tasks", RAVENTOS, "Section 3.1: performance on new tasks", cost=(22, 300))
def new_tasks(trial: Trial) -> Measurement:
    """On new tasks, a transformer pretrained on few tasks is much worse than ridge regression, and one pretrained on
    many is about as good.

    Measured: the mean squared errors of both against labels without noise, divided by that of ridge regression: more
    than 1.5 for few, between 0.8 and 1.25 for many.

    Control: the other decoder in each case.

    Settings: those of `raventos-few`; many are new tasks for every prompt.
    """
    measured = answers(trial, both(trial), fresh=True)
    one, other = (measured.error(name) / measured.error("ridge") for name in ("few", "many"))
    return Measurement(
        {"few": (one, other), "many": (other, one)},
        reported={"dMMSE": measured.error("dmmse") / measured.error("ridge")},
    )


@claim("raventos-longer", RAVENTOS, "Section 3.3: more training", cost=(27, 400))
def longer(trial: Trial) -> Measurement:
    """With more training, a transformer below the threshold of task diversity moves towards dMMSE, and one above it
    towards ridge regression.

    Measured: the mean squared difference from dMMSE after all steps, divided by that after a quarter of them, for a
    decoder pretrained on few tasks; and the same with ridge regression for one pretrained on many; on new tasks.

    Control: the distance from dMMSE of the decoder pretrained on many tasks, for both.

    Settings: those of `raventos-few`; the shorter training has its own schedule.
    """
    early = {f"{name} early": pretrained(trial, few=name == "few", part=0.25) for name in ("few", "many")}
    measured = answers(trial, both(trial) | early, fresh=True)

    def moved(name: str, estimator: str) -> float:
        return measured.apart(name, estimator) / measured.apart(f"{name} early", estimator)

    control = moved("many", "dmmse")
    return Measurement({"below": (moved("few", "dmmse"), control), "above": (moved("many", "ridge"), control)})
