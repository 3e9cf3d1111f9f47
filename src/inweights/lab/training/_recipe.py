"""`Recipe`: all settings that determine the result of a training, as a small TOML file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inweights._errors import InputError, Problems, shown, unknown
from inweights._read import read_toml
from inweights.lab._draw import Draw
from inweights.lab._own import faults, is_own
from inweights.lab._text import value
from inweights.lab.models import MODELS, Settings
from inweights.lab.tasks import TASKS, Task

SEED = "seed"


class Strict(BaseModel):
    """A frozen model without unknown keys or implicit conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Kind(BaseModel):
    """A task or a model: its kind, and its settings as extra fields."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    kind: str

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Curriculum(Strict):
    """Easy prompts first: from `dims` and `points` to all dimensions and points, over a share of the steps."""

    dims: int = Field(ge=1)
    points: int = Field(default=0, ge=0, description="0: all of them from the start")
    share: float = Field(default=0.15, gt=0, le=1)


Share = Annotated[float, Field(ge=0, lt=1)]


class Recipe(Strict):
    """A training: the task, the model, and the settings of the optimisation.

    - `task`: a setting of the value "seed" is the seed of the training: then each seed has a task of its own.
    - `points`: the number of points in a prompt, the last query included. `batch`: prompts per step, over all
      processes.
    - `warmup`, `cooldown`: shares of the steps over which the learning rate rises from 0, and falls to 0 (`trapezoid`).
    - `target`: the labels as they are, or without their noise (`clean`).
    - `objective`: the mean of the losses at all points, or of their logarithms. Losses are large after few examples,
      where little can be predicted; logarithms give all points the same weight, as long as their loss is above `floor`
      (in units of the error of always answering 0).
    - `precision`: that of matrix products; weights and optimiser are float32. An exact fit needs precision: the
      gradient of a good model in bfloat16 can have a cosine of 0.1 with the true one; in float16 it is 1.
    - `average`: average the weights over about this many last steps; 0 keeps the last weights.
    """

    task: Kind
    model: Kind
    points: int = Field(ge=1)
    steps: int = Field(ge=1)
    batch: int = Field(ge=1)
    rate: float = Field(gt=0)
    optimiser: Literal["adam", "muon"] = "adam"
    betas: tuple[Share, Share] = (0.9, 0.99)
    decay: float = Field(default=0.0, ge=0)
    clip: float = Field(default=1.0, ge=0)
    schedule: Literal["constant", "linear", "cosine", "trapezoid"] = "linear"
    warmup: float = Field(default=0.02, ge=0, lt=1)
    cooldown: float = Field(default=0.3, gt=0, le=1)
    curriculum: Curriculum | None = None
    target: Literal["labels", "clean"] = "labels"
    objective: Literal["mean", "log"] = "mean"
    floor: float = Field(default=1e-5, gt=0)
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    average: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    note: str = ""

    @property
    def own_task(self) -> bool:
        """Whether the task depends on the seed."""
        return SEED in self.task.settings.values()

    def make_task(self) -> Task:
        settings = {key: self.seed if value == SEED else value for key, value in self.task.settings.items()}
        return TASKS.make(self.task.kind, **settings)

    def make_model(self) -> Settings:
        return MODELS.make(self.model.kind, **self.model.settings)

    def checked(self) -> Recipe:
        """Returns the recipe if its task and model can be created and fit together; raises an error otherwise."""
        problems, task, model = Problems(), None, None
        try:
            task = self.make_task()
        except InputError as error:
            problems.unless(False, str(error))
        try:
            model = self.make_model()
        except InputError as error:
            problems.unless(False, str(error))
        if task is not None and model is not None:
            try:
                # User-defined objects may not be comparable.
                cached = not (is_own(task) or is_own(model))
                fit = _answers_for_all_points if cached else _answers_for_all_points.__wrapped__
                causal = fit(model, task, self.points)
            except InputError as error:
                problems.unless(False, str(error))
            else:
                problems.unless(
                    causal or not (self.curriculum and self.curriculum.points),
                    f"`curriculum.points` needs a model that answers for all points, but {self.model.kind} answers for "
                    "the last alone.",
                )
        for fault in faults(task, self.points) if task is not None and is_own(task) else ():
            problems.unless(False, f"The task {self.task.kind!r} {fault}.")
        if self.curriculum:
            dims, points = self.curriculum.dims, self.curriculum.points
            if task is not None:
                problems.unless(
                    dims <= task.dims, f"`curriculum.dims` is {dims}, but the task has {task.dims} dimensions."
                )
            problems.unless(
                points <= self.points, f"`curriculum.points` is {points}, but prompts have {self.points} points."
            )
        problems.stop()
        return self


@cache
def _answers_for_all_points(model: Settings, task: Task, points: int) -> bool:
    """Whether a model answers for all points of a prompt, and not for the last alone. It is built, and a prompt drawn,
    on the meta device, which needs no memory; an error names what does not fit. Once for recipes that differ in other
    values, such as seeds: operations on that device are slow."""
    with torch.device("meta"):
        built = model.build(task, points)
        if not is_own(task):
            task.sample(Draw(0, 0, 1, device="meta"), points)
    return built.causal


def parse(values: dict[str, Any], where: str) -> Recipe:
    """A recipe from plain values. Raises one error that lists all faults, one sentence each."""
    betas = values.get("betas")
    if isinstance(betas, list):  # TOML and JSON have no tuples
        values = values | {"betas": tuple(betas)}
    try:
        return Recipe.model_validate(values).checked()
    except ValidationError as error:
        lines = [_sentence(e, where) for e in error.errors()]
        lines += [f"{where}: {line}" for line in _parts_faults(values)]
        raise InputError("\n".join(lines)) from None
    except InputError as error:
        raise InputError("\n".join(f"{where}: {line}" for line in str(error).splitlines())) from None


def _parts_faults(values: dict[str, Any]) -> Iterator[str]:
    """The faults of the task and the model of a recipe that has other faults too."""
    for key, kinds in (("task", TASKS), ("model", MODELS)):
        settings = values.get(key)
        if isinstance(settings, dict) and isinstance(settings.get("kind"), str):
            try:
                kinds.make(settings["kind"], **{k: v for k, v in settings.items() if k != "kind" and v != SEED})
            except InputError as error:
                yield from str(error).splitlines()


def _sentence(error: Any, where: str) -> str:
    place = ".".join(str(p) for p in error["loc"])
    if error["type"] == "extra_forbidden":
        fields = Curriculum.model_fields if len(error["loc"]) > 1 else Recipe.model_fields
        return f"{where}: {unknown('key', place, fields)}"
    if error["type"] == "missing":
        return f"{where}: `{place}` is missing."
    output = error["msg"][0].lower() + error["msg"][1:]
    return f"{where}: `{place}` is {shown(error['input'])}, but {output.replace('input should', 'it must')}."


RECIPES = Path(__file__).parents[1] / "recipes"


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(p.stem for p in RECIPES.glob("*.toml"))


def read(name_or_path: str, settings: list[str] | None = None) -> Recipe:
    """A recipe by name or from a TOML file, with some values replaced or added as by `changed`."""
    path = Path(name_or_path) if name_or_path.endswith(".toml") else RECIPES / f"{name_or_path}.toml"
    if not path.is_file():
        if path.parent == RECIPES:
            raise unknown("recipe", name_or_path, recipe_names())
        raise InputError(f"There is no file {name_or_path!r} to read a recipe from.")
    values = read_toml(path, "The recipe")
    try:
        recipe = parse(values, name_or_path)
    except InputError:
        if not settings:
            raise
        return parse(_merged(values, settings), f"{name_or_path} with --set")
    return changed(recipe, settings) if settings else recipe


def changed(recipe: Recipe, settings: list[str], where: str = "--set") -> Recipe:
    """A recipe with some values replaced, given as `key=value`; keys may have dots: `model.layers=3`.

    Error messages begin with `where`.
    """
    return parse(_merged(recipe.model_dump(), settings), where)


def _merged(values: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    for setting in settings:
        key, result, text = setting.partition("=")
        if not result:
            raise InputError(f"{setting!r} is no setting: write key=value, for example steps=1000.")
        *path, last = key.strip().split(".")
        place = values
        for part in path:
            place[part] = place.get(part) or {}
            place = place[part]
            if not isinstance(place, dict):
                raise InputError(f"{setting!r}: `{part}` has no settings of its own.")
        place[last] = value(text)
    return values
