"""Small models that are trained inside a trial, for claims whose settings no recipe of the zoo has."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.training import Recipe, parse, train
from inweights.ledger import Trial


def trained_now(
    trial: Trial, task: dict[str, Any], model: dict[str, Any], *, points: int, steps: int, **settings: Any
) -> Learner:
    """A model trained with the seed of a trial; `settings` are further settings of a recipe."""
    values = {"task": task, "model": model, "points": points, "steps": steps, "seed": trial.seed, **settings}
    recipe = parse({"batch": 64, "rate": 2e-3, **values}, "a training in a trial")
    with tempfile.TemporaryDirectory() as folder:
        return train(recipe, Path(folder), device=trial.device, after=lambda _: trial.beat()).model.eval()


def weights_of(recipe: Recipe, trial: Trial) -> dict[str, Tensor]:
    """The weights after a training by a recipe, for `kept`."""
    with tempfile.TemporaryDirectory() as folder:
        model = train(recipe, Path(folder), device=trial.device, after=lambda _: trial.beat()).model
    return {name: value.detach() for name, value in model.state_dict().items()}
