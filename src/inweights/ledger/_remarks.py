"""Remarks: a sentence or two that explain a verdict. They do not influence it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger._claim import CLAIMS


def remarks() -> dict[str, str]:
    """Remarks by claim id, of all papers with loaded claims."""
    folders = dict.fromkeys(c.paper.folder for c in CLAIMS.values())
    return {id: about["why"] for folder in folders for id, about in remarks_file(folder).items()}


@cache
def remarks_file(folder: Path) -> dict[str, dict[str, str]]:
    """The content of `remarks.toml` in the folder of a paper; empty if there is none."""
    path = folder / "remarks.toml"
    return read_toml(path, "The file", limit=CONFIG_LIMIT) if path.is_file() else {}
