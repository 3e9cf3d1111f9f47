"""Remarks: why a verdict is what it is, in a sentence or two by who looked into it. Nothing is judged by them."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files


@cache
def remarks() -> dict[str, str]:
    """By claim."""
    text = (files("inweights.claims") / "remarks.toml").read_text(encoding="utf-8")
    return {id: about["why"] for id, about in tomllib.loads(text).items()}
