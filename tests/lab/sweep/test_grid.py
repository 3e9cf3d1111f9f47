"""Grids: all combinations, or all that is wrong with them."""

from __future__ import annotations

import pytest

from inweights import InputError
from inweights.lab.sweep import cells
from inweights.lab.training import Recipe, changed


def problems(recipe: Recipe, *grid: str) -> list[str]:
    with pytest.raises(InputError) as error:
        cells(recipe, list(grid))
    return str(error.value).splitlines()


def test_a_grid_is_every_combination_in_order(small: Recipe) -> None:
    result = cells(small, ["model.layers=1,2", "optimiser=adam,muon", "betas=[0.9,0.99],[0.8, 0.9]"])
    assert [tuple(str(v) for v in c.settings.values()) for c in result][:3] == [
        ("1", "adam", "[0.9, 0.99]"),
        ("1", "adam", "[0.8, 0.9]"),
        ("1", "muon", "[0.9, 0.99]"),
    ]
    assert len({c.key for c in result}) == len(result) == 8
    assert result[1].recipe == changed(small, ["model.layers=1", "optimiser=adam", "betas=[0.8,0.9]"])


def test_a_cell_is_its_recipe(small: Recipe) -> None:
    """The same recipe gives the same cell, however it was created; any change gives another one."""
    (one,) = cells(changed(small, ["model.tokens=one", "model.size=tiny"]), ["seed=3"])
    (two,) = cells(changed(small, ["seed=3", "model.size=tiny"]), ["model.tokens=one"])
    (other,) = cells(changed(small, ["model.tokens=one", "rate=0.5"]), ["seed=3"])
    assert one.key == two.key != other.key


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ([], "A sweep needs a --grid"),
        (["seed"], "--grid is 'seed', but must be a key and its values"),
        (["seed="], "--grid is 'seed=', but"),
        (["=1,2"], "--grid is '=1,2', but"),
        (["seed=1,,2"], "--grid is 'seed=1,,2', but"),
        (["seeds=1,2"], "--grid: There is no key 'seeds'; did you mean seed"),
        (["model.layer=1,2"], "'layer'; did you mean layers"),
        (["seed=1", "seed=2"], "--grid names 'seed' twice"),
        (["rate=0.001,1e-3"], "--grid: rate=1e-3 is there twice"),
        (["steps=10,0"], "--grid: `steps` is 0"),
        (["model.layers=0,1"], "`layers` is 0, but must be at least 1: leave it out for what `size` says."),
    ],
)
def test_bad_grids_are_one_sentence(small: Recipe, grid: list[str], said: str) -> None:
    (result,) = problems(small, *grid)
    assert said in result


def test_all_problems_at_once_and_each_once(small: Recipe) -> None:
    assert len(problems(small, "steps=0,1", "batch=0,8", "seed=0,1,2")) == 2
    assert len(problems(small, "steps", "seed=")) == 2
