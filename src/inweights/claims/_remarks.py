"""Remarks: why a verdict is what it is, in a sentence or two by who looked into it. Nothing is judged by them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from inweights._read import CONFIG_LIMIT, read_toml


@cache
def remarks() -> dict[str, str]:
    """By claim."""
    values = read_toml(Path(str(files("inweights.claims"))) / "remarks.toml", "The file", limit=CONFIG_LIMIT)
    return {id: about["why"] for id, about in values.items()}
