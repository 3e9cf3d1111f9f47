"""The table of a sweep: one row per cell, in the order of the grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inweights._files import write_atomic, write_csv
from inweights.lab.sweep._cell import Cell, Result
from inweights.lab.sweep._store import folder_of


def table_rows(out: Path, cells: list[Cell], results: list[Result]) -> list[dict[str, Any]]:
    """The settings and results of each cell, as plain values."""
    return [
        {
            "settings": cell.settings,
            "status": result.status,
            "loss": result.loss,
            "curve": list(result.curve),
            "seconds": result.seconds,
            "message": result.message,
            "folder": str(folder_of(out, cell)),
        }
        for cell, result in zip(cells, results, strict=True)
    ]


def write_table(out: Path, cells: list[Cell], results: list[Result]) -> Path:
    """Writes `results.csv`, with a column for each setting and for the error after each number of examples, and
    `results.json`."""
    result = table_rows(out, cells, results)
    write_atomic(out / "results.json", json.dumps({"cells": result}, indent=1, allow_nan=False) + "\n")
    longest = max(len(r["curve"]) for r in result)
    plain = ("status", "loss", "seconds", "message", "folder")
    return write_csv(
        out / "results.csv",
        (*cells[0].settings, *plain, *(f"error_{i}" for i in range(longest))),
        [(*r["settings"].values(), *(r[name] for name in plain), *r["curve"]) for r in result],
    )
