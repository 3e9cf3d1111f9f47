"""Several seeds as one program: each model is the one of a single training, up to rounding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inweights import InputError
from inweights.lab.models import MODELS
from inweights.lab.tasks.covariance import Rotated
from inweights.lab.training import (
    Recipe,
    StoppedError,
    changed,
    load_trained,
    read,
    read_about,
    recipe_names,
    train,
    train_seeds,
)
from inweights.lab.training._seeds import ALONE, one_by_one
from inweights.lab.zoo._keep import keep

KINDS = {
    "lsa-2": [],  # tied weights, clipping
    "lsa-5": ["clip=0.001"],
    "gdpp-5": [],
    "mlp": ["model.layers=1"],
    "copying": [],  # position codes as a buffer
    "softmax-2": [],
    "depth-2": ["decay=0.1"],  # Muon, weight decay
    "note-encoder": [],
    "seed-encoder": ["average=3"],  # a curriculum, and the mean of weights
    "mixed-noise-8": [],
    "induction": [],  # tokens
    "griffin-5": ["model.layers=3"],  # scans
    "mamba-5": ["model.layers=1", "model.width=8"],
    "hybrid-5": ["model.layers=1", "model.width=8"],
}


def test_every_architecture_has_a_recipe_and_its_seeds_are_tested() -> None:
    kinds = {read(name).model.kind for name in recipe_names()}
    assert kinds == set(MODELS)
    assert {recipe_of(name).model.kind for name in KINDS} | set(ALONE) == kinds


def recipe_of(name: str) -> Recipe:
    more = KINDS[name]
    return changed(read("sine" if name == "mlp" else name), ["steps=6", "batch=8", "warmup=0.0", *more])


@pytest.mark.parametrize("name", KINDS)
def test_each_seed_is_its_single_training(name: str, tmp_path: Path) -> None:
    """After 6 steps, float32: weights to a twentieth of the rate, which is the size of a step of Adam however small its
    gradient is; those of another seed are further away."""
    recipe = recipe_of(name)
    together = train_seeds(recipe, (3, 4), tmp_path / "two", every=3)
    for seed, result in zip((3, 4), together, strict=True):
        alone = train(changed(recipe, [f"seed={seed}"]), tmp_path / f"alone-{seed}", every=3)
        own = result.model.state_dict()
        assert apart(result.model, alone.model) < 0.05 * recipe.rate
        assert result.loss == pytest.approx(alone.loss, rel=1e-4)
        model, stored, about = load_trained(tmp_path / "two" / f"seed-{seed}" / "model.safetensors")
        assert stored == changed(recipe, [f"seed={seed}"])
        assert all(torch.equal(p, own[n]) for n, p in model.state_dict().items())
        assert about["seconds"] > 0
        assert {"machine", "torch"} <= set(about["made_with"])
        assert about["seeds"] == [3, 4]
    assert apart(together[0].model, together[1].model) > recipe.rate


def apart(one: torch.nn.Module, other: torch.nn.Module) -> float:
    """The largest difference of two models' parameters."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max((p - q).detach().abs().max().item() for p, q in pairs)


def test_a_stopped_training_of_seeds_goes_on(tmp_path: Path) -> None:
    """The weights are then the same bit for bit, and the folder is refused for other seeds."""
    recipe = recipe_of("lsa-2")
    whole = train_seeds(recipe, (0, 1), tmp_path / "whole", every=2)
    steps = iter([False, False, True])
    with pytest.raises(StoppedError):
        train_seeds(recipe, (0, 1), tmp_path / "parts", every=2, stop=lambda: next(steps))
    with pytest.raises(InputError, match="holds a training with other seeds"):
        train_seeds(recipe, (0, 2), tmp_path / "parts", every=2)
    parts = train_seeds(recipe, (0, 1), tmp_path / "parts", every=2)
    for a, b in zip(whole, parts, strict=True):
        assert a.loss == b.loss
        assert all(torch.equal(p, q) for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True))
    again = train_seeds(recipe, (0, 1), tmp_path / "parts", every=2)  # nothing is left to do
    assert [r.loss for r in again] == [r.loss for r in whole]


def test_what_has_no_batched_form_is_trained_one_by_one(tmp_path: Path) -> None:
    recipe = changed(read("lstm-5"), ["steps=2", "batch=4"])
    assert "lstm" in one_by_one(recipe)
    assert "float16" in one_by_one(read("linear-20"))
    results = train_seeds(recipe, (0, 1), tmp_path)
    assert [r.path.parent.name for r in results] == ["seed-0", "seed-1"]


def test_the_zoo_keeps_what_a_model_was_made_with(tmp_path: Path) -> None:
    train_seeds(recipe_of("lsa-2"), (0, 1), tmp_path / "two", every=2)
    about = keep(tmp_path / "two" / "seed-1", "lsa-2@1", tmp_path, prompts=16)
    assert about["made_with"] == read_about(tmp_path / "two" / "seed-1" / "model.safetensors")[1]["made_with"]
    assert len(about["curve"]) > 1
    assert read_about(tmp_path / "lsa-2@1.safetensors")[1]["seeds"] == [0, 1]


def test_a_task_of_each_seed_is_trained_one_by_one() -> None:
    """Its setting is the seed; other tasks do not depend on it."""
    recipe = read("ahn-rotated", ["task.which='seed'"])
    assert "task of its own" in one_by_one(recipe)
    tasks = [changed(recipe, [f"seed={seed}"]).make_task() for seed in (0, 3)]
    assert [task.which for task in tasks if isinstance(task, Rotated)] == [0, 3]
    assert changed(read("ahn-3"), ["seed=3"]).make_task() == read("ahn-3").make_task()
