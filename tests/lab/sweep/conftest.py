"""Cells that take a second."""

from __future__ import annotations

import pytest

from inweights.lab.sweep import Cell, cells
from inweights.lab.training import Recipe, changed, read

SMALL = ("model.layers=1", "model.width=16", "model.heads=2", "batch=8", "points=6", "steps=60")
GRID = ("model.layers=1,2", "seed=0,1")


@pytest.fixture(scope="session")
def small() -> Recipe:
    return changed(read("linear-5"), list(SMALL))


@pytest.fixture(scope="session")
def four(small: Recipe) -> list[Cell]:
    return cells(small, list(GRID))


@pytest.fixture(scope="session")
def arguments() -> list[str]:
    """The same cells, on the command line."""
    options = (("--set", SMALL), ("--grid", GRID))
    return ["linear-5", *(part for option, texts in options for text in texts for part in (option, text))]
