"""`inweights lab show`: descriptions of the names of the lab."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inweights.lab import zoo
from inweights.lab._describe import REGISTRIES, Formula, as_toml, described
from inweights.lab.training import Recipe, changed, parse, read, recipe_names


@pytest.fixture
def shown(lab: Callable[..., Any]) -> Callable[[str], list[dict[str, Any]]]:
    return lambda name: json.loads(lab("show", name, "--json").stdout)["found"]


@pytest.mark.parametrize("what", list(REGISTRIES))
def test_every_kind_is_shown_with_its_settings(what: str) -> None:
    for name in REGISTRIES[what]:
        (result,) = (each for each in described(name) if each.what == what)
        assert not isinstance(result, Formula)
        kind = REGISTRIES[what][name]
        assert result.about.startswith((kind.__doc__ or "").splitlines()[0].strip())
        assert not result.about.startswith(f"{kind.__name__}("), "the docstring that dataclasses make up"
        assert [s.name for s in result.settings] == list(REGISTRIES[what].fields(name))


def test_settings_have_their_defaults(shown: Callable[[str], list[dict[str, Any]]]) -> None:
    (sparse,) = shown("sparse")
    assert {"name": "kept", "type": "int", "default": "3"} in sparse["settings"]
    assert "`w` has `kept` standard normal" in sparse["about"]
    assert "From Linear" in sparse["about"]  # which says what `noise` is
    assert sparse["facts"]["power"] == 3
    (descent,) = shown("gd++")
    assert descent["settings"][0]["default"] is None
    assert shown("dmmse")[0]["use"] == ""


@pytest.mark.parametrize(
    ("name", "options"), [("ridge", 1), ("gd++", 1), ("orthants", 1), ("sparse", 2), ("decoder", 2)]
)
def test_how_a_kind_is_chosen_can_be_typed(name: str, options: int, lab: Callable[..., Any]) -> None:
    use = described(name)[0].use.split()  # type: ignore[union-attr]
    assert use[0].startswith("--")
    assert len(use) == 2 * options
    if use[0] != "--set":
        lab("eval", "lsa-1", "--prompts", "2", *use)
    else:
        assert changed(read("linear-5"), ["task.dims=5", *use[1::2]])


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_shown_as_a_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "seeds", lambda _: [])
    result = described(name)[0]
    assert isinstance(result, Formula)
    output, whole = tomllib.loads(result.text), tomllib.loads(as_toml(result.recipe))
    assert all(whole[key] == value for key, value in output.items() if key != "curriculum")
    assert output.get("curriculum", {}).items() <= whole.get("curriculum", {}).items()
    assert result.recipe.model_dump() | result.defaults == result.recipe.model_dump()
    assert {*result.defaults, *output} == set(Recipe.model_fields)


def test_what_the_zoo_has_of_a_recipe() -> None:
    result = described("lsa-1")[0]
    assert isinstance(result, Formula)
    assert [t.seed for t in result.trained] == zoo.seeds("lsa-1")
    assert parse(tomllib.loads(as_toml(result.recipe)), "") == result.recipe
    for each in result.trained:
        assert each.about["quality"] == zoo.about(each.file)["quality"]
        assert each.today == (zoo.seeded("lsa-1", each.seed) is not None)


def test_a_recipe_and_a_task_of_one_name(lab: Callable[..., Any], shown: Callable[[str], list[dict[str, Any]]]) -> None:
    assert [each["what"] for each in shown("sine")] == ["recipe", "task"]
    text = lab("show", "sine").stdout
    assert 'kind = "mlp-lsa"' in text
    assert "phase" in text


def test_a_seed_and_a_folder(
    shown: Callable[[str], list[dict[str, Any]]], lab: Callable[..., Any], tmp_path: Path
) -> None:
    (one,) = shown("lsa-1@3")
    (trained,) = one["trained"]
    assert trained["command"] == "inweights lab train lsa-1 --set seed=3 --out lsa-1@3"
    assert f"{trained['about']['quality'][-1]:.3g}" in lab("show", "lsa-1@3").stdout
    (file,) = shown(str(zoo.find("lsa-1@3")))
    assert file["what"] == "trained model"
    own = tmp_path / "again.toml"
    own.write_text(file["toml"])
    assert read(str(own)) == changed(read("lsa-1"), ["seed=3"])
    assert shown(str(own))[0]["settings"]["seed"] == 3
    lab("show", own)


def test_an_unknown_name_is_refused_with_the_nearest(refused: Callable[..., str]) -> None:
    assert "did you mean lsa-5, lsa" in refused("show", "lsa5")
    assert "did you mean ridge" in refused("show", "rigde", "--json")
    assert "is not trained; the zoo has its seeds 0, 1" in refused("show", "lsa-1@77")
