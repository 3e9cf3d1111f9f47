"""Rows to weights: training rows of a small table move into the weights of TabPFN; its boundary stays."""

from __future__ import annotations

from typing import Any

from inweights.app._limits import RowsRequest
from inweights.app._prompt import rounded
from inweights.app._worker import Desk, Tell
from inweights.models import TOLERANCE, load_tabpfn, rows_boundary


def rows_job(request: RowsRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """The class at each point of a grid, in the four cases, with the largest difference of logits of each."""
    tell.progress("loading TabPFN")
    if "tabpfn" not in desk.last:
        desk.last["tabpfn"] = load_tabpfn()
    made = rows_boundary(
        request.data, request.kept, request.rows, request.grid, request.seed, model=desk.last["tabpfn"],
        after=lambda done, total: tell.progress("rows to weights", done, total),
    )  # fmt: skip
    error, others = made.error(made.patched), min(made.error(made.bare), made.error(made.control))
    cases = {name: getattr(made, name) for name in ("full", "bare", "patched", "control")}
    return {
        "points": rounded(made.points), "labels": made.labels.tolist(), "columns": list(made.columns),
        "low": list(made.low), "high": list(made.high), "grid": request.grid, "kept": request.kept,
        "classes": {name: logits.argmax(-1).tolist() for name, logits in cases.items()},
        "errors": {name: made.error(logits) for name, logits in cases.items()},
        "tolerance": TOLERANCE, "verdict": "PASS" if error <= TOLERANCE < others else "FAIL",
    }  # fmt: skip
