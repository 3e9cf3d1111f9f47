"""Hashes of the code that results hang on."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

ROOMS = ("theory", "blocks", "models", "fold", "data", "lab")
# What judges, keeps and lists results does not change what a trial finds.
CORE = ("init", "claim", "code", "criteria", "judge", "keep", "ledger", "papers", "side_by_side")


@cache
def room(name: str) -> str:
    """Of a room of the package, trained models included."""
    digest = hashlib.sha256()
    home = Path(str(files(f"inweights.{name}")))
    for path in sorted(p for p in home.rglob("*") if p.suffix in (".py", ".toml", ".txt", ".safetensors")):
        digest.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def trials() -> str:
    """Of everything that trials of claims are made of: all papers' claims, for they share code, and the rooms below."""
    digest = hashlib.sha256("".join(map(room, ROOMS)).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem.strip("_") not in CORE:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def made_by() -> str:
    """Of all that the numbers of a trial hang on but its settings: the code, and the versions that it runs on."""
    text = " ".join([trials(), version("torch"), version("transformers")])
    return hashlib.sha256(text.encode()).hexdigest()
