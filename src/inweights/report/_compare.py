"""A comparison of in-context learning and gradient descent as a table, figures and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inweights._draw import COLOURS
from inweights._figures import HEADER, Curve, Figure
from inweights._files import write_atomic, write_csv
from inweights.compare import Comparison

MEASURES = {"token_overlap": "token overlap with in-context learning", "accuracy_labels": "accuracy over labels"}
"""Measures that are drawn along each way of gradient descent."""
DESCENT = "gradient descent"


def write_comparison(folder: Path, result: Comparison) -> list[Path]:
    """Writes `compare-TASK.json`, its table as CSV, and a figure for each measure along gradient descent."""
    values, stem = result.as_json(), f"compare-{result.setting['task']}"
    rows = [
        (row, measure, *(numbers + [""] * (3 - len(numbers))))
        for row, measures in result.table().items()
        for measure, numbers in measures.items()
    ]
    paths = [
        write_atomic(folder / f"{stem}.json", json.dumps(values, indent=1) + "\n"),
        write_csv(folder / f"{stem}.csv", ("row", "measure", "value", "low", "high"), rows),
    ]
    for measure, title in MEASURES.items():
        figure = along_descent(values, result.table(), measure, title)
        paths.append(write_atomic(folder / f"{stem}-{measure}.png", figure.png()))
        paths.append(write_csv(folder / f"{stem}-{measure}.csv", HEADER, figure.rows()))
    return paths


def along_descent(values: dict[str, Any], table: dict[str, Any], measure: str, title: str, way: str = "gd") -> Figure:
    """A measure at each checkpoint of a way of descent, one curve for each rate, beside that of in-context learning
    (for an overlap, of two orders with each other)."""
    points = values["curves"][way]
    epochs = sorted({p["epoch"] for p in points})
    colours = list(COLOURS)
    mean, low, high = table["in-context"][measure]
    whole = len(epochs)
    curves = [
        Curve(
            "in-context learning", epochs, [mean] * whole, colour="black", style="--", low=[low] * whole,
            high=[high] * whole,
        )
    ]  # fmt: skip
    for k, rate in enumerate(sorted({p["rate"] for p in points})):
        own = sorted((p["epoch"], p[measure]) for p in points if p["rate"] == rate)
        x, y = zip(*own, strict=True)
        curves.append(
            Curve(f"{DESCENT if way == 'gd' else way}, rate {rate:g}", x, y, colour=colours[k % 4], marker="o")
        )
    return Figure(f"{values['setting']['task']}: {title}", "epochs", title, curves)
