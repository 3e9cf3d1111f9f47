"""Results on disk: one file per cell, with a checksum. A damaged file counts as missing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from inweights._files import write_atomic
from inweights._read import read_json
from inweights.lab.sweep._cell import Cell, Result

NAME = "result.json"
RESULT = TypeAdapter(Result)


def folder_of(out: Path, cell: Cell) -> Path:
    return out / "cells" / cell.key


def write(out: Path, cell: Cell, prompts: int, result: Result) -> Path:
    """Writes the result of a finished cell, together with everything that it depends on."""
    values = _about(cell, prompts) | {"result": dataclasses.asdict(result)}
    return write_atomic(folder_of(out, cell) / NAME, json.dumps(values | {"sha256": _sum(values)}, indent=1) + "\n")


def read(out: Path, cell: Cell, prompts: int) -> Result | None:
    """The result of a cell; None if there is none, if it is damaged, or if it was measured on other prompts."""
    try:
        values = read_json(folder_of(out, cell) / NAME, "The result")
        if values.pop("sha256") != _sum(values) or values | _about(cell, prompts) != values:
            return None
        return RESULT.validate_python(values["result"])
    except (ValueError, KeyError):  # missing, damaged, or with values of other types
        return None


def _about(cell: Cell, prompts: int) -> dict[str, Any]:
    return {"recipe": cell.recipe.model_dump(mode="json"), "prompts": prompts}


def _sum(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
