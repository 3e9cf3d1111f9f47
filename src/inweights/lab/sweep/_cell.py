"""`Cell`: one training of a sweep, and what comes of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inweights._errors import InputError
from inweights.engines import Beat
from inweights.lab._curves import curves
from inweights.lab._own import Own, enter, own_modules
from inweights.lab.training import Recipe, train

PATIENCE = 120.0


@dataclass(frozen=True)
class Cell:
    """A recipe, and the settings by which it differs from the others of its sweep."""

    settings: dict[str, Any]
    recipe: Recipe

    @property
    def key(self) -> str:
        """The name of its folder. It follows from the recipe alone (and from what a file of one's own says that it
        names something of): another recipe is another cell."""
        text = json.dumps(self.recipe.model_dump(mode="json"), sort_keys=True)
        text += "".join(own_modules(self.recipe.make_task(), self.recipe.make_model()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """What a cell gave.

    - `loss`: of training, at its end. `seconds`: of training.
    - `curve`: the mean error after 0, 1, … examples, on prompts that no training saw.
    - `message`: why it failed; empty if it did not.
    """

    loss: float | None = None
    curve: tuple[float, ...] = ()
    seconds: float = 0.0
    message: str = ""

    @property
    def status(self) -> str:
        return "failed" if self.message else "done"


@dataclass(frozen=True)
class Training:
    """A cell as work for an engine: its name, the folder of its files, how many prompts to measure on, and the files
    of one's own that it may need."""

    cell: Cell
    key: str
    folder: Path
    prompts: int
    own: tuple[Own, ...] = ()

    def do(self, folder: Path, beat: Beat) -> Result:
        """Trains and measures. One thread, so that the sums are the same on any machine's cores."""
        torch.set_num_threads(1)
        enter(self.own)
        recipe = self.cell.recipe
        # Who may still be at it is a worker of a sweep that was killed, and about to notice.
        trained = train(recipe, folder, patience=PATIENCE, after=lambda _: beat())
        result = curves(
            recipe.make_task(),
            recipe.points,
            {"model": trained.model},
            prompts=self.prompts,
            clean=recipe.target == "clean",
        )["model"].mean(0)
        if not result.isfinite().all():
            raise InputError("The trained model's errors are not finite numbers.")
        return Result(trained.loss, tuple(result.tolist()), trained.seconds)

    def failed(self, why: str) -> Result:
        return Result(message=why)
