"""Measurements of the models of the zoo, stored in `measured.json` so that tests need not repeat them every time.

The stated errors of a model are measured on 6,400 prompts. They are verified when a model or its predictions change:
run `python tests/lab/zoo/measured.py`, which measures those models and writes the table. The table has of each model
the hash of its file, and its errors on the first few of these prompts. As long as a test finds the same file with the
same errors on the same prompts, it would find the same quality on all of them.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights.lab import curves
from inweights.lab.models import Learner
from inweights.lab.training import Recipe
from inweights.lab.zoo import ZOO, find, names, trained
from inweights.lab.zoo._keep import LARGE

TABLE = Path(__file__).with_name("measured.json")
FEW = 32
RENEW = "measure it again: run `python tests/lab/zoo/measured.py`"


def file_hash(name: str) -> str:
    return hashlib.sha256(find(name).read_bytes()).hexdigest()


def errors(model: Learner, recipe: Recipe, prompts: int = FEW) -> Tensor:
    """After 0, 1, … examples, the mean over the first prompts of those that its quality was measured on."""
    return curves(recipe.make_task(), recipe.points, {"model": model}, prompts=prompts, clean=recipe.target == "clean")[
        "model"
    ].mean(0)


def alike(found: Tensor, told: list[float], off: float = 1.05) -> bool:
    """Errors that differ by no more than this factor; those below 1e-6 are rounding."""
    ratio = (found + 1e-6) / (torch.tensor(told, dtype=torch.float64) + 1e-6)
    return bool(ratio[: len(told)].log().abs().max() < math.log(off))


def as_told(name: str, model: Learner, recipe: Recipe, about: dict[str, Any]) -> bool:
    """Whether a model has its stated errors, on the prompts of the stated quality.

    Fewer of what takes long: large models, other seeds, and models that have to be run for each prefix. Behind as many
    examples as dimensions, one prompt in thousands can be most of the mean.
    """
    size, dims = sum(p.numel() for p in model.parameters()), recipe.make_task().dims
    prompts, off, points = 6400, 1.05, recipe.points
    if size > LARGE:
        prompts, off, points = 256, 1.5, dims + 1
    elif size > 5000 and ("@" in name or not model.causal):
        prompts, off, points = 800, 1.5, dims + 1 if model.causal else recipe.points
    return alike(errors(model, recipe, prompts)[:points], about["quality"][:points], off)


def read() -> dict[str, dict[str, Any]]:
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def fresh(name: str, model: Learner, recipe: Recipe, kept: dict[str, dict[str, Any]]) -> bool:
    """Whether the table is about this file, and about what it answers today."""
    entry = kept.get(name)
    return entry is not None and entry["file"] == file_hash(name) and alike(errors(model, recipe), entry["errors"])


def renewed(kept: dict[str, dict[str, Any]], among: list[str]) -> dict[str, dict[str, Any]]:
    """The table of these models, with all measured again that have changed; a model without its stated errors is an
    error."""
    result = {}
    for name in among:
        model, recipe, about = trained(name)
        if fresh(name, model, recipe, kept):
            result[name] = kept[name]
            continue
        if not as_told(name, model, recipe, about):
            raise SystemExit(f"{name} is not as good as it says: train it again")
        result[name] = {
            "file": file_hash(name),
            "errors": [float(f"{e:.4g}") for e in errors(model, recipe).tolist()],
        }
    return result


def main() -> None:
    torch.set_num_threads(1)
    assert ZOO in find("lsa-1").parents, "not in a folder that has models of the same names"
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in renewed(read(), names()).items())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
