"""Remarks: why a verdict is what it is, in a sentence or two. Nothing is judged by them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger._claim import CLAIMS


def remarks() -> dict[str, str]:
    """By claim, of all papers with claims that are loaded."""
    folders = dict.fromkeys(c.paper.folder for c in CLAIMS.values())
    return {id: about["why"] for folder in folders for id, about in remarks_file(folder).items()}


@cache
def remarks_file(folder: Path) -> dict[str, dict[str, str]]:
    """What `remarks.toml` in the folder of a paper says, if there is one."""
    path = folder / "remarks.toml"
    return read_toml(path, "The file", limit=CONFIG_LIMIT) if path.is_file() else {}
