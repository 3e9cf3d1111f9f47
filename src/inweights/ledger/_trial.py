"""`Trial`: what a claim's function is given: a seed, a size, and the models that it may ask for."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import torch

from inweights._errors import InputError
from inweights._fetch import cache as cache_folder
from inweights.engines import Beat, no_beat
from inweights.lab import Draw, zoo
from inweights.lab.models import Learner
from inweights.lab.training import (
    CHECKPOINT,
    MODEL,
    Recipe,
    changed,
    load_trained,
    read,
    read_about,
    recipe_names,
    train,
)
from inweights.ledger._code import code

if TYPE_CHECKING:
    from inweights.models import Model

T = TypeVar("T")


class NotHereError(Exception):
    """What a claim needs is not here, at this size: the message says what."""


class UnmetError(Exception):
    """A precondition of a claim does not hold."""


@dataclass(frozen=True)
class Trial:
    """One run of a claim. Everything random in it follows from `seed`. `train`: whether to train, for hours maybe, what
    the zoo does not have. `beat` ends it when nobody waits for it."""

    seed: int
    quick: bool = True
    device: str = "cpu"
    train: bool = False
    beat: Beat = field(default=no_beat, compare=False, repr=False)

    def generator(self) -> torch.Generator:
        """A new one on the CPU, always in the same state."""
        return torch.Generator().manual_seed(self.seed)

    def draw(self, rows: int, step: int = 0, *, dtype: torch.dtype = torch.float32) -> Draw:
        """Numbers for prompts that no training saw: trainings count their steps from 0 up."""
        return Draw(-1 - self.seed, step, rows, device=self.device, dtype=dtype)

    def size(self, quick: T, full: T) -> T:
        """The one that this run is for."""
        return quick if self.quick else full

    def require(self, holds: bool, what: str) -> None:
        """Stops the trial if a precondition does not hold; its claim is then inconclusive."""
        if not holds:
            raise UnmetError(what)

    def recipe(self, name: str) -> Recipe:
        """A recipe of the lab, with the seed of this trial."""
        return changed(read(name), [f"seed={self.seed}"])

    def trained(self, name: str) -> Learner:
        """The model that a recipe gives with the seed of this trial: from the zoo, or trained here, now or before."""
        result = zoo.seeded(name, self.seed)
        if result is not None:
            return result.to(self.device).eval()
        recipe = self.recipe(name)
        key = hashlib.sha256((recipe.model_dump_json() + code(train)).encode()).hexdigest()[:12]
        folder = cache_folder() / "claims" / "trained" / f"{name}-{self.seed}-{key}"
        for file in (folder / MODEL, folder / CHECKPOINT):
            try:
                if file.is_file() and read_about(file) and file.name == MODEL:
                    return load_trained(file)[0].to(self.device)
            except InputError:  # it is damaged, and in a cache nobody should have to delete it
                file.unlink(missing_ok=True)
        if not self.train:
            raise NotHereError(
                f"`{name}` with seed {self.seed} is not in the zoo: `claims run --train` trains it, as does "
                f"`lab train {name} --set seed={self.seed}` for whoever keeps the zoo"
            )
        # A second trial that needs it waits, and then finds it trained.
        return train(
            recipe, folder, device=self.device, patience=math.inf, waiting=self.beat, after=lambda _: self.beat()
        ).model.eval()

    def language_model(self, dtype: str = "float32") -> Model:
        """SmolLM2, loaded once for a process."""
        try:
            return _language_model(self.device, dtype)
        except InputError as error:
            raise NotHereError(str(error)) from error


def to_train(needs: tuple[str, ...], seeds: int) -> dict[str, int]:
    """The recipes whose models a claim needs and the zoo does not have as they are today, each with how many of its
    seeds are missing. No weights are read."""
    return {n: missing for n in needs if n in recipe_names() and (missing := seeds - _in_the_zoo(n, seeds))}


@cache
def _in_the_zoo(name: str, seeds: int) -> int:
    today, there = read(name), set(zoo.seeds(name)) & set(range(seeds))
    files = {seed: zoo.find(name if seed == 0 else f"{name}@{seed}") for seed in there}
    return sum(read_about(file)[0] == changed(today, [f"seed={seed}"]) for seed, file in files.items())


@cache
def _language_model(device: str, dtype: str) -> Model:
    from inweights.models import load

    return load("smollm2", device=device, dtype=dtype)
