"""Models for the tests: the default one, loaded once, and tiny random ones."""

from __future__ import annotations

import pytest

from inweights.models import Model, load


@pytest.fixture(scope="session")
def smollm2() -> Model:
    """SmolLM2 in float64. The first run on a machine fetches and converts it."""
    return load("smollm2", dtype="float64")


@pytest.fixture(scope="session")
def smollm2_float32() -> Model:
    return load("smollm2", dtype="float32")
