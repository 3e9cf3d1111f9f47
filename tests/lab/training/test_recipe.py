"""Recipes: all faults are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from inweights import InputError
from inweights.lab.training import Recipe, changed, parse, read
from inweights.lab.training._recipe import RECIPES


def sentences(recipe: Recipe, *settings: str) -> list[str]:
    with pytest.raises(InputError) as error:
        changed(recipe, list(settings))
    return str(error.value).splitlines()


def test_unknown_keys_are_named_with_their_neighbours(small: Recipe) -> None:
    assert sentences(small, "batches=3") == ["--set: There is no key 'batches'; did you mean batch, rate, betas?"]
    assert "did you mean layers" in sentences(small, "model.layer=3")[0]
    assert "did you mean linear" in sentences(small, "task.kind=linaer")[0]


@pytest.mark.parametrize(
    "setting",
    [
        "steps=0", "batch=-1", "points=0", "rate=0", "rate=inf", "rate=nan", "betas=[0.9,1.0]", "betas=[-0.1,0.9]",
        "warmup=1.0", "cooldown=0.0", "clip=-1.0", "decay=inf", "average=-1", "seed=-1", "seed=4294967296",
        "steps=5.0", "steps=many", "schedule=steep", "optimiser=magic", "curriculum.dims=6", "task.dims=0",
        "model.size=huge", "model.width=17", "model.width=0", "model.layers=0", "model.heads=0",
    ],
)  # fmt: skip
def test_impossible_values_are_one_sentence(small: Recipe, setting: str) -> None:
    (output,) = sentences(small, setting)
    assert output.startswith("--set: ")
    assert setting.partition("=")[0].split(".")[-1] in output


def test_all_problems_at_once(small: Recipe) -> None:
    output = sentences(small, "steps=0", "batch=0", "nonsense=1")
    assert len(output) == 3
    assert len(sentences(small, "stepz=3", "model.layers=0", "task.kind=liner")) == 3
    output = sentences(small, "task.dims=0", "model.size=huge", "curriculum.dims=1", "curriculum.points=99")
    assert len(output) == 3
    assert all(line.startswith("--set: ") for line in output)


def test_settings_that_are_none(small: Recipe) -> None:
    assert sentences(small, "steps") == ["'steps' is no setting: write key=value, for example steps=1000."]
    assert sentences(small, "steps.more=1") == ["'steps.more=1': `steps` has no settings of its own."]


def test_a_recipe_survives_its_own_json(small: Recipe) -> None:
    import json

    whole = changed(small, ["betas=[0.8,0.95]", "curriculum.dims=2", "optimiser=muon"])
    assert parse(json.loads(whole.model_dump_json()), "test") == whole != small


def test_what_a_file_lacks_can_be_set(tmp_path: Path) -> None:
    lines = (RECIPES / "linear-5.toml").read_text().splitlines()
    path = tmp_path / "my.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith("steps")))
    with pytest.raises(InputError, match=r"`steps` is missing"):
        read(str(path))
    assert read(str(path), ["steps=7"]) == changed(read("linear-5"), ["steps=7"])
    with pytest.raises(InputError, match=r"my.toml with --set: `steps` is 0"):
        read(str(path), ["steps=0"])


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        read(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(InputError, match=r"The recipe .*bad\.toml. cannot be read, it is not TOML"):
        read(str(tmp_path / "bad.toml"))
    with pytest.raises(InputError, match="There is no recipe 'linear-6'; did you mean linear-5"):
        read("linear-6")
