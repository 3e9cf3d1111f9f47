"""Descriptions of the names of the lab: documentation, settings and measurements."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from inweights._errors import InputError, unknown
from inweights._read import read_text
from inweights.lab import zoo
from inweights.lab._own import REGISTRIES
from inweights.lab._registry import Registry
from inweights.lab.training import Recipe, build, changed, read, recipe_names
from inweights.lab.training._checkpoint import read_about
from inweights.lab.training._recipe import RECIPES

PLAIN = ("int", "float", "str", "bool", "tuple[float", "tuple[int")
"""Prefixes of the types of settings that can be given on the command line; others are given in Python."""


@dataclass(frozen=True)
class Setting:
    """A setting; `default` is its default as text, or None if it is required."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True)
class Kind:
    """A task, shift, model or predictor.

    - `about`: its docstring, and those of the classes that it inherits settings from.
    - `facts`: loss, outputs and power of a task with its default settings.
    - `use`: the command-line option that selects it; empty if it can only be created in Python.
    """

    what: str
    name: str
    about: str
    settings: tuple[Setting, ...]
    use: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingNote:
    """A trained model: its seed, its measurements, and the command that reproduces it.

    - `today`: whether its recipe is the current one of this name.
    """

    seed: int
    file: str
    about: dict[str, Any]
    today: bool
    command: str


@dataclass(frozen=True)
class Formula:
    """A recipe, or a model that was trained by one.

    - `text`: the recipe as TOML, with comments if it is from a file. `defaults`: the values that it does not set.
    """

    what: str
    name: str
    recipe: Recipe
    text: str
    defaults: dict[str, Any]
    parameters: int
    trained: tuple[TrainingNote, ...]


def described(name: str) -> list[Kind | Formula]:
    """Descriptions of everything with this name, which kinds and recipes may share; also for `NAME@SEED`, a TOML file,
    and a folder or file that `lab train` wrote."""
    path = Path(name)
    if name.endswith(".toml"):
        return [_recipe(name, path)]
    base, _, seed = name.partition("@")
    known = {*recipe_names(), *(n for registry in REGISTRIES.values() for n in registry)}
    if base in recipe_names() and seed.isdecimal():
        return [_recipe(base, RECIPES / f"{base}.toml", int(seed))]
    results: list[Kind | Formula] = [_recipe(name, RECIPES / f"{name}.toml")] if name in recipe_names() else []
    results += [_kind(what, registry, name) for what, registry in REGISTRIES.items() if name in registry]
    if not results and path.exists():
        return [_folder(name)]
    if not results:
        raise unknown("recipe, task, shift, model or predictor", name, sorted(known))
    return results


def _kind(what: str, registry: Registry[Any], name: str) -> Kind:
    kind = registry[name]
    settings = tuple(_setting(f) for f in registry.fields(name).values())
    facts: dict[str, Any] = {}
    if what == "task":
        try:
            task = registry.make(name)
            facts = {"loss": task.loss, "outputs": task.outputs, "power": task.power}
        except InputError:  # some settings have no defaults
            pass
    return Kind(what, name, _about(kind), settings, _use(what, name, settings), facts)


def _use(what: str, name: str, settings: tuple[Setting, ...]) -> str:
    """The command-line option that selects it, with required settings, or else the last setting as an example."""
    needed = [s for s in settings if s.default is None]
    if not all(s.type.startswith(PLAIN) for s in needed):
        return ""
    plain = [s for s in settings if s.type.startswith(PLAIN) and s.default != "None"]
    given = [f"{s.name}={s.default or '[0.5]'}".replace('"', "").replace(" ", "") for s in needed or plain[-1:]]
    if what in ("task", "model"):
        return " ".join(f"--set {what}.{each}" for each in (f"kind={name}", *given))
    return f"--{'shift' if what == 'shift' else 'against'} {':'.join(filter(None, (name, ','.join(given))))}"


def _setting(f: dataclasses.Field[Any]) -> Setting:
    default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    return Setting(f.name, str(f.type), None if default is dataclasses.MISSING else _typed(default))


def _about(kind: type) -> str:
    """Its docstring, followed by those of the classes that it inherits settings from, except the base classes."""
    parts = [inspect.getdoc(kind) or ""]
    for base in kind.__mro__[1:-2]:
        if inspect.get_annotations(base) and "__doc__" in base.__dict__ and base.__mro__[1] is not object:
            parts.append(f"From {base.__name__}, whose settings it has: {inspect.getdoc(base)}")
    return "\n\n".join(parts)


def _recipe(name: str, path: Path, seed: int | None = None) -> Formula:
    recipe = read(name)
    text = read_text(path, "The recipe")
    defaults = {k: f.default for k, f in Recipe.model_fields.items() if k not in recipe.model_fields_set}
    seeds = zoo.seeds(name) if path.parent == RECIPES else []
    if seed is not None and seed not in seeds:
        zoo.find(f"{name}@{seed}")  # raises an error if it is missing
    trained = tuple(_training(name, s, recipe) for s in seeds if seed in (None, s))
    return Formula("recipe", name, recipe, text, defaults, _parameters(recipe), trained)


def _training(name: str, seed: int, recipe: Recipe) -> TrainingNote:
    file = name if seed == 0 else f"{name}@{seed}"
    made, about = read_about(zoo.find(file))
    elsewhere = f" --set seed={seed} --out {file}" if seed else ""
    command = f"inweights lab train {name}{elsewhere}"
    return TrainingNote(seed, file, about, made == changed(recipe, [f"seed={seed}"]), command)


def _folder(name: str) -> Formula:
    recipe, about = read_about(zoo.find(name))
    file = name if name.endswith(".safetensors") else str(zoo.find(name))
    trained = TrainingNote(recipe.seed, file, about, True, "")
    return Formula("trained model", name, recipe, as_toml(recipe), {}, _parameters(recipe), (trained,))


def _parameters(recipe: Recipe) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build(recipe).parameters())


def as_toml(recipe: Recipe) -> str:
    """A recipe with all its values as TOML."""
    values = recipe.model_dump(mode="json", exclude_none=True)
    plain = [f"{k} = {_typed(v)}" for k, v in values.items() if not isinstance(v, dict)]
    tables = [[f"\n[{k}]", *(f"{n} = {_typed(v)}" for n, v in t.items())] for k, t in values.items() if type(t) is dict]
    return "\n".join([*plain, *(line for table in tables for line in table)]) + "\n"


def _typed(value: Any) -> str:
    """A value as TOML; values without a TOML form as Python's `repr`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(_typed(v) for v in value)}]"
    return repr(value)
