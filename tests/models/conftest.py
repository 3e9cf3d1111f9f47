"""Models for the tests: the default one, loaded once, and tiny random ones."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from inweights.models import Model


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every way to open a socket fails, and is noted here: a library may catch the error and go on."""
    tried: list[str] = []

    def refuse(name: str) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            tried.append(name)
            raise OSError("no network in this test")

        return call

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse(name))
    return tried


@pytest.fixture(scope="session")
def smollm2(load_once: Callable[..., Model]) -> Model:
    """SmolLM2 in float64. The first run on a machine fetches and converts it."""
    return load_once("smollm2", dtype="float64")


@pytest.fixture(scope="session")
def smollm2_float32(load_once: Callable[..., Model]) -> Model:
    return load_once("smollm2", dtype="float32")
