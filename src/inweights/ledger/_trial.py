"""`Trial`: the argument of a claim's function: a seed, a problem size, and access to trained models."""

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
    """Something that a claim needs is not available at this size; the message names it."""


class UnmetError(Exception):
    """A precondition of a claim does not hold."""


@dataclass(frozen=True)
class Trial:
    """One run of a claim.

    - `seed`: determines everything random in it.
    - `quick`: whether to use the smaller sizes.
    - `train`: whether to train models that the zoo does not have, which may take hours.
    - `beat`: called during long work; it ends the process if the caller no longer exists.
    """

    seed: int
    quick: bool = True
    device: str = "cpu"
    train: bool = False
    beat: Beat = field(default=no_beat, compare=False, repr=False)

    def generator(self) -> torch.Generator:
        """A new generator on the CPU, seeded with `seed`."""
        return torch.Generator().manual_seed(self.seed)

    def draw(self, rows: int, step: int = 0, *, dtype: torch.dtype = torch.float32) -> Draw:
        """Random numbers for prompts that no training has seen: their seed is negative, which no training uses."""
        return Draw(-1 - self.seed, step, rows, device=self.device, dtype=dtype)

    def size(self, quick: T, full: T) -> T:
        """`quick` in a quick run, else `full`."""
        return quick if self.quick else full

    def require(self, holds: bool, what: str) -> None:
        """Stops the trial if a precondition does not hold; the verdict is then INCONCLUSIVE."""
        if not holds:
            raise UnmetError(what)

    def recipe(self, name: str) -> Recipe:
        """A training recipe of the lab, with the seed of this trial."""
        return changed(read(name), [f"seed={self.seed}"])

    def trained(self, name: str) -> Learner:
        """The model trained by a recipe with the seed of this trial: from the zoo, from the cache, or trained now."""
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
            except InputError:  # damaged; users should not have to delete files of a cache
                file.unlink(missing_ok=True)
        if not self.train:
            raise NotHereError(
                f"`{name}` with seed {self.seed} is not in the zoo: `claims run --train` trains it, as does "
                f"`lab train {name} --set seed={self.seed}` for whoever keeps the zoo"
            )
        # A second trial that needs the model waits, and then uses the trained one.
        return train(
            recipe, folder, device=self.device, patience=math.inf, waiting=self.beat, after=lambda _: self.beat()
        ).model.eval()

    def language_model(self, dtype: str = "float32") -> Model:
        """SmolLM2, loaded once per process."""
        try:
            return _language_model(self.device, dtype)
        except InputError as error:
            raise NotHereError(str(error)) from error


def to_train(needs: tuple[str, ...], seeds: int) -> dict[str, int]:
    """The number of missing seeds of each recipe that a claim needs and that the zoo does not have in its current form.
    No weights are read."""
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
