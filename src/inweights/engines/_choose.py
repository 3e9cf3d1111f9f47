"""Engines by name."""

from __future__ import annotations

from inweights._errors import InputError, unknown
from inweights.engines._local import local
from inweights.engines._ray import ray
from inweights.engines._work import Engine

ENGINES: dict[str, Engine] = {"local": local, "ray": ray}


def choose(engine: str, address: str | None) -> Engine:
    """The engine of a name. An address that it would not use is an error."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if address is not None and engine != "ray":
        raise InputError(f"--address is {address!r}, but only --engine ray connects to one.")
    return ENGINES[engine]
