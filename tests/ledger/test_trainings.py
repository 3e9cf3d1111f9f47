"""Models that trials need are trained once, also where several trials wait for them, and damaged ones once more."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights import InputError
from inweights.lab.training import Progress, Recipe, changed, train
from inweights.lab.training import read as read_recipe
from inweights.ledger import NotHereError, Trial, _trial


def test_two_trials_that_need_one_model_train_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, in another process or, as here, in another thread, and then uses its result."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    waited, steps = threading.Event(), []

    def training(recipe: Recipe, folder: Path, **more: Any) -> Any:
        def after(progress: Progress) -> None:
            assert waited.wait(60)
            steps.append(progress.step)

        return train(changed(recipe, ["steps=2", "batch=2"]), folder, **more | {"after": after})

    monkeypatch.setattr(_trial, "train", training)
    trial = Trial(999, train=True, beat=waited.set)  # who waits beats
    with ThreadPoolExecutor(2) as two:
        one, other = two.map(lambda _: trial.trained("linear-5"), range(2))
    assert steps == [1, 2]
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_damaged_training_in_the_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; and only where trainings were asked for."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    folders: list[Path] = []

    def training(recipe: Recipe, folder: Path, **more: Any) -> Any:
        folders.append(folder)
        return train(recipe, folder, **more)

    monkeypatch.setattr(_trial, "train", training)
    monkeypatch.setattr(Trial, "recipe", lambda trial, name: changed(read_recipe(name), ["steps=2", "batch=2"]))
    good = Trial(999, train=True).trained("linear-5")

    def the_same(trial: Trial) -> bool:
        found = trial.trained("linear-5").parameters()
        return all(torch.equal(a, b) for a, b in zip(good.parameters(), found, strict=True))

    for file in ("model.safetensors", "checkpoint.safetensors"):
        (folders[0] / file).write_text("garbage")
    assert the_same(Trial(999, train=True))
    assert len(folders) == 2
    (folders[0] / "checkpoint.safetensors").write_text("garbage")
    assert the_same(Trial(999)), "the model is whole"
    (folders[0] / "model.safetensors").write_text("garbage")
    with pytest.raises(NotHereError, match="is not in the zoo"):
        Trial(999).trained("linear-5")
    assert len(folders) == 2


def test_a_training_that_fails_is_not_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint is intact, and kept."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    times: list[Path] = []

    def training(recipe: Recipe, folder: Path, **more: Any) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        times.append(folder)
        raise InputError("The loss became infinite")

    monkeypatch.setattr(_trial, "train", training)
    with pytest.raises(InputError, match="infinite"):
        Trial(999, train=True).trained("linear-5")
    assert len(times) == 1
