"""Grids: settings with several values each, and all their combinations."""

from __future__ import annotations

import itertools
from typing import Any

from inweights._errors import InputError, Problems
from inweights.lab._text import COMMA
from inweights.lab.sweep._cell import Cell
from inweights.lab.training import Recipe, changed


def cells(recipe: Recipe, grid: list[str]) -> list[Cell]:
    """Every combination of `key=value,value,…`, the last key changing fastest. One error lists all faults."""
    axes = _axes(grid)
    problems: dict[str, None] = {}  # in order and without duplicates: many cells may have the same fault
    results: dict[str, Cell] = {}
    for values in itertools.product(*axes.values()):
        chosen = [f"{key}={value}" for key, value in zip(axes, values, strict=True)]
        try:
            whole = changed(recipe, chosen, "--grid")
        except InputError as error:
            problems |= dict.fromkeys(str(error).splitlines())
            continue
        cell = Cell({key: _value(whole, key) for key in axes}, whole)
        if cell.key in results:
            problems[f"--grid: {', '.join(chosen)} is there twice: name each value once."] = None
        results[cell.key] = cell
    if problems:
        raise InputError("\n".join(problems))
    return list(results.values())


def _axes(grid: list[str]) -> dict[str, list[str]]:
    problems = Problems()
    problems.unless(bool(grid), "A sweep needs a --grid, for example --grid seed=0,1,2.")
    axes: dict[str, list[str]] = {}
    for text in grid:
        key, result, rest = text.partition("=")
        key, values = key.strip(), [v.strip() for v in COMMA.split(rest)]
        if problems.unless(
            bool(result and key and all(values)),
            f"--grid is {text!r}, but must be a key and its values, for example seed=0,1,2.",
        ):
            problems.unless(key not in axes, f"--grid names {key!r} twice: give all its values at once.")
            axes[key] = values
    problems.stop()
    return axes


def _value(recipe: Recipe, key: str) -> Any:
    """The value of a recipe under a dotted key."""
    place: Any = recipe.model_dump(mode="json")
    for part in key.split("."):
        place = place[part]
    return place
