"""`Cell`: one training of a sweep, and `Result`: its result."""

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
        """The name of its folder, which depends only on the recipe (and on the content of the user's own files that it
        uses)."""
        text = json.dumps(self.recipe.model_dump(mode="json"), sort_keys=True)
        text += "".join(own_modules(self.recipe.make_task(), self.recipe.make_model()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """The result of a cell.

    - `loss`: the final training loss. `seconds`: the duration of the training.
    - `curve`: the mean error after 0, 1, … examples, on prompts that no training has seen.
    - `message`: the reason of a failure; empty without one.
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
    """A cell as work for an engine: the cell, the folder of its files, the number of prompts to measure on, and the
    user's own files that it may need."""

    cell: Cell
    key: str
    folder: Path
    prompts: int
    own: tuple[Own, ...] = ()

    def do(self, folder: Path, beat: Beat) -> Result:
        """Trains and measures, in one thread, so that sums do not depend on the number of cores."""
        torch.set_num_threads(1)
        enter(self.own)
        recipe = self.cell.recipe
        # A worker of a sweep that was killed may still be training here; it ends soon.
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
