"""What docs/lab.md shows is what the lab does."""

from __future__ import annotations

import re
from pathlib import Path

from inweights.lab.training import read

GUIDE = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_whole_recipe_is_one(tmp_path: Path) -> None:
    path = tmp_path / "sparse-10.toml"
    path.write_text(blocks("toml")[0], encoding="utf-8")
    recipe = read(str(path))
    assert (recipe.task.kind, recipe.make_model().shape.layers) == ("sparse", 2)  # type: ignore[attr-defined]
    assert recipe.curriculum is not None
