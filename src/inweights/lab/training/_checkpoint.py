"""Files of a training: checkpoint, trained model and metrics. Files are written atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save
from torch import Tensor

from inweights import __version__
from inweights._errors import InputError, shown
from inweights._files import write_atomic
from inweights._read import parse_json
from inweights._safetensors import Header, read_safetensors, read_safetensors_header
from inweights.lab._own import own_modules
from inweights.lab.models import MODELS, Learner
from inweights.lab.tasks import TASKS
from inweights.lab.training._recipe import Recipe, parse
from inweights.lab.training._run import Run, build
from inweights.theory import not_finite

CHECKPOINT, MODEL, METRICS = "checkpoint.safetensors", "model.safetensors", "metrics.jsonl"


def write(path: Path, tensors: dict[str, Tensor], recipe: Recipe, **about: Any) -> Path:
    """Writes tensors with the recipe, other plain values, and the user's own files that the recipe needs."""
    if own := own_modules(recipe.make_task(), recipe.make_model()):
        about["own"] = own
    metadata = {"inweights": __version__, "recipe": recipe.model_dump_json(), "about": json.dumps(about)}
    return write_atomic(path, save({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, metadata))


AGAIN = "train it again, or name another file"
WHAT = "The checkpoint"


class About(BaseModel):
    """The metadata that commands rely on; there may be further values."""

    model_config = ConfigDict(extra="allow", strict=True)
    own: list[str] = []
    loss: float | None = None
    seconds: float = 0.0
    since: int = 0
    total: float | list[float] = 0.0
    device: str = ""
    seeds: list[int] = []
    losses: list[float] = []
    made_with: dict[str, str] = {}
    quality: list[float] = []
    curve: list[Annotated[list[float], Field(min_length=2, max_length=2)]] = []


def read_tensors(path: Path, fix: str = AGAIN) -> tuple[dict[str, Tensor], Recipe, dict[str, Any]]:
    """Reads what `write` wrote. The error message for a damaged file ends with `fix`."""
    header, tensors = read_safetensors(path, WHAT, fix=fix)
    return tensors, *_about(path, header, fix)


def read_about(path: Path, fix: str = AGAIN) -> tuple[Recipe, dict[str, Any]]:
    """Reads the recipe and the plain values only, without tensors."""
    return _about(path, read_safetensors_header(path, WHAT, fix=fix), fix)


def _about(path: Path, header: Header, fix: str) -> tuple[Recipe, dict[str, Any]]:
    if not {"recipe", "about"} <= header.metadata.keys():
        raise InputError(f"{str(path)!r} holds no recipe: it was not written by a training of this lab.")
    recipe = parse_json(header.metadata["recipe"], f"The recipe in {str(path)!r}", fix=fix)
    # The loss is NaN if a training had no steps left.
    about = parse_json(header.metadata["about"], f"The description in {str(path)!r}", fix=fix, finite=False)
    try:
        About.model_validate(about)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"The description in {str(path)!r} has a wrong `{place}`: {fix}.") from None
    for what, registry in (("task", TASKS), ("model", MODELS)):
        kind = recipe[what].get("kind") if isinstance(recipe.get(what), dict) else None
        if about.get("own") and isinstance(kind, str) and kind not in registry:
            raise InputError(
                f"{str(path)!r} was made with a {what} {shown(kind)} from a file of its own: name that file with "
                "--load."
            )
    return parse(recipe, str(path)), about


def check_model(folder: Path) -> None:
    """Raises an error if the trained model in this folder is damaged; it may be missing."""
    if (folder / MODEL).is_file():
        read_about(folder / MODEL, "delete it to go on")


def resume(run: Run, folder: Path) -> dict[str, Any]:
    """Loads the checkpoint in this folder, if there is one, into the run; returns its plain values."""
    path = folder / CHECKPOINT
    if not path.is_file():
        if (folder / MODEL).is_file():  # the checkpoint was deleted, or the disk was full
            _same(read_about(folder / MODEL, "delete it to go on")[0], run.recipe, folder)
        return {}
    tensors, recipe, about = read_tensors(path, "delete it to begin anew")
    _same(recipe, run.recipe, folder)
    if about.get("seeds", [recipe.seed]) != list(run.seeds):
        raise InputError(f"{str(folder)!r} holds a training with other seeds: name another folder, or delete it.")
    if about.get("own", []) != own_modules(recipe.make_task(), recipe.make_model()):
        raise InputError(
            f"{str(folder)!r} holds a training with another form of the file that --load names: name another folder, "
            "or delete it."
        )
    try:
        run.load(tensors)
        fits = {n: t.shape for n, t in run.state().items()} == {n: t.shape for n, t in tensors.items()}
    except (KeyError, RuntimeError):
        fits = False
    if not fits or not 0 <= int(run.step) <= recipe.steps:
        raise InputError(f"{str(path)!r} does not fit its own recipe: delete it to start again.")
    return about


def _same(recipe: Recipe, asked: Recipe, folder: Path) -> None:
    """Raises an error if a folder holds a training with another recipe."""
    if recipe != asked:
        differ = [k for k in Recipe.model_fields if getattr(recipe, k) != getattr(asked, k)]
        raise InputError(
            f"{str(folder)!r} holds a training with another recipe ({', '.join(differ)}): name another folder, or "
            "delete it."
        )


def load_trained(path: Path) -> tuple[Learner, Recipe, dict[str, Any]]:
    """A trained model from its file, in float32, with its recipe and its measurements."""
    tensors, recipe, about = read_tensors(path)
    with torch.device("meta"):  # needs no memory
        shapes = {name: t.shape for name, t in build(recipe).state_dict().items()}
    if shapes != {name: t.shape for name, t in tensors.items()}:
        raise InputError(f"{str(path)!r} does not fit its own recipe: it is damaged.")
    model = build(recipe)
    model.load_state_dict({n: t.float() if t.is_floating_point() else t for n, t in tensors.items()})
    if not_finite(model.state_dict()):
        raise InputError(f"{str(path)!r} holds numbers that are not finite.")
    return model.eval(), recipe, about
