"""A training that takes a second, on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from inweights.lab.training import Recipe, changed, read

SMALL = ("model.layers=1", "model.width=16", "model.heads=2", "batch=8", "points=6", "steps=40")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def small() -> Recipe:
    return changed(read("linear-5"), list(SMALL))
