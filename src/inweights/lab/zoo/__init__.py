"""The zoo: trained models in the package, one file each with its recipe and its measured errors."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights.lab.models import Learner
from inweights.lab.training import Recipe, changed, load_trained, read
from inweights.lab.training import recipe_names as recipes
from inweights.lab.training._checkpoint import CHECKPOINT, METRICS, MODEL, read_about

ZOO = Path(__file__).parent


def names() -> list[str]:
    """The names of all models in the zoo; `NAME@SEED` for seeds other than 0."""
    return sorted(p.stem for p in ZOO.glob("*.safetensors"))


def seeds(name: str) -> list[int]:
    """The seeds of a recipe in the zoo."""
    return sorted(int(seed or 0) for base, _, seed in (n.partition("@") for n in names()) if base == name)


def seeded(name: str, seed: int) -> Learner | None:
    """The model of the current form of a recipe with this seed; None if it is not in the zoo."""
    file = name if seed == 0 else f"{name}@{seed}"
    if file not in names():
        return None
    model, recipe, _ = load_trained(ZOO / f"{file}.safetensors")
    return model if recipe == changed(read(name), [f"seed={seed}"]) else None


def find(name_or_path: str) -> Path:
    """The file of a trained model: from a folder or file that `lab train` wrote, or from the zoo by its name."""
    outside = Path(name_or_path)
    if outside.is_dir() and (outside / MODEL).is_file():
        return outside / MODEL
    if outside.is_file():
        return outside
    if any((outside / file).is_file() for file in (CHECKPOINT, METRICS)):
        raise InputError(
            f"The training in {name_or_path!r} is unfinished: run `inweights lab train RECIPE --out {name_or_path}` "
            "as it was begun, and it goes on."
        )
    base, _, seed = name_or_path.partition("@")
    name = base if seed == "0" else name_or_path
    if name in names():
        return ZOO / f"{name}.safetensors"
    if base in recipes() and (name == base or seed.isdecimal()):
        with_seed = f" --set seed={seed} --out {name}" if name != base else ""
        here = f"; the zoo has its seeds {', '.join(map(str, seeds(base)))}" if seeds(base) else ""
        raise InputError(
            f"The recipe {name!r} is not trained{here}: run `inweights lab train {base}{with_seed}` first."
        )
    near = difflib.get_close_matches(name_or_path, names(), n=3, cutoff=0.4)
    like = f"; similar ones are {', '.join(near)}" if near else ""
    raise InputError(
        f"There is no trained model {name_or_path!r}{like}: `inweights lab list` names all, and `inweights lab train` "
        "makes others."
    )


def trained(name_or_path: str) -> tuple[Learner, Recipe, dict[str, Any]]:
    """A trained model, its recipe, and its measurements."""
    return load_trained(find(name_or_path))


def about(name_or_path: str) -> dict[str, Any]:
    """The measurements of a trained model, without reading its weights."""
    return read_about(find(name_or_path))[1]
