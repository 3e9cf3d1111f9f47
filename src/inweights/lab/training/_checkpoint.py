"""Files of a training: where it stands, what it gave, and how it went. Each is whole or not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from inweights import __version__
from inweights._errors import InputError
from inweights._files import write_atomic
from inweights.lab._own import own_modules
from inweights.lab.models import MODELS, Learner
from inweights.lab.tasks import TASKS
from inweights.lab.training._recipe import Recipe, parse
from inweights.lab.training._run import Run, build

CHECKPOINT, MODEL, METRICS = "checkpoint.safetensors", "model.safetensors", "metrics.jsonl"


def write(path: Path, tensors: dict[str, Tensor], recipe: Recipe, **about: Any) -> Path:
    """Tensors, with the recipe and other plain values beside them; also what files of one's own it was made with."""
    if own := own_modules(recipe.make_task(), recipe.make_model()):
        about["own"] = own
    metadata = {"inweights": __version__, "recipe": recipe.model_dump_json(), "about": json.dumps(about)}
    return write_atomic(path, save({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, metadata))


AGAIN = "train it again, or name another file"


def read_tensors(path: Path, fix: str = AGAIN) -> tuple[dict[str, Tensor], Recipe, dict[str, Any]]:
    """What `write` wrote. A damaged file is refused with a sentence that ends with what to do about it."""
    with _opened(path, fix) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
    return tensors, *read_about(path, fix)


def read_about(path: Path, fix: str = AGAIN) -> tuple[Recipe, dict[str, Any]]:
    """The recipe and the plain values alone."""
    with _opened(path, fix) as file:
        metadata = file.metadata() or {}
    try:
        recipe, about = json.loads(metadata["recipe"]), json.loads(metadata["about"])
        for what, registry in (("task", TASKS), ("model", MODELS)):
            if about.get("own") and recipe[what]["kind"] not in registry:
                raise InputError(
                    f"{str(path)!r} was made with a {what} {recipe[what]['kind']!r} from a file of its own: name that "
                    "file with --load."
                )
        return parse(recipe, str(path)), about
    except (KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r} holds no recipe: it was not written by a training of this lab.") from None


@contextmanager
def _opened(path: Path, fix: str) -> Iterator[Any]:
    try:
        with safe_open(path, "pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise InputError(f"{str(path)!r} cannot be read, it is damaged or no checkpoint ({error}): {fix}.") from None


def check_model(folder: Path) -> None:
    """Stops if the trained model in this folder is damaged; it may be missing."""
    if (folder / MODEL).is_file():
        read_about(folder / MODEL, "delete it to go on")


def resume(run: Run, folder: Path) -> dict[str, Any]:
    """Goes on where the training in this folder stopped, if there is one; gives what was said of it then."""
    path = folder / CHECKPOINT
    if not path.is_file():
        if (folder / MODEL).is_file():  # its checkpoint was deleted, or the disk was full
            _same(read_about(folder / MODEL, "delete it to go on")[0], run.recipe, folder)
        return {}
    tensors, recipe, about = read_tensors(path, "delete it to begin anew")
    _same(recipe, run.recipe, folder)
    if about.get("own", []) != own_modules(recipe.make_task(), recipe.make_model()):
        raise InputError(
            f"{str(folder)!r} holds a training with another form of the file that --load names: name another folder, "
            "or delete it."
        )
    try:
        run.load(tensors)
    except (KeyError, RuntimeError):
        raise InputError(f"{str(path)!r} does not fit its own recipe: delete it to start again.") from None
    return about


def _same(recipe: Recipe, asked: Recipe, folder: Path) -> None:
    """Stops where a folder holds the work of another recipe than is asked for."""
    if recipe != asked:
        differ = [k for k in Recipe.model_fields if getattr(recipe, k) != getattr(asked, k)]
        raise InputError(
            f"{str(folder)!r} holds a training with another recipe ({', '.join(differ)}): name another folder, or "
            "delete it."
        )


def load(path: Path) -> tuple[Learner, Recipe, dict[str, Any]]:
    """A trained model from its file, in float32, with its recipe and what was measured of it."""
    tensors, recipe, about = read_tensors(path)
    model = build(recipe)
    try:
        model.load_state_dict({n: t.float() if t.is_floating_point() else t for n, t in tensors.items()})
    except RuntimeError:
        raise InputError(f"{str(path)!r} does not fit its own recipe: it is damaged.") from None
    if not all(torch.isfinite(t).all() for t in model.state_dict().values() if t.is_floating_point()):
        raise InputError(f"{str(path)!r} holds numbers that are not finite.")
    return model.eval(), recipe, about
