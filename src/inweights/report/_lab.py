"""Error curves of the lab as figures, with the tables that they are drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from inweights._files import write_atomic, write_csv
from inweights.lab import bootstrap
from inweights.report._figures import COLOURS, HEADER, Curve, Figure


def curves_figure(title: str, errors: Mapping[str, Tensor], unit: str) -> Figure:
    """Mean errors after 0, 1, … examples with bootstrap bands; `errors[name]` is `(prompts, points)`.

    The first curve is emphasised; the others are drawn as comparisons.
    """
    colours = list(COLOURS)
    lines = []
    for k, (name, each) in enumerate(errors.items()):
        band = bootstrap(each)
        lines.append(
            Curve(
                name,
                list(range(each.shape[1])),
                band.mean.tolist(),
                colour=colours[k % len(colours)],
                style="-" if k == 0 else "--" if k <= len(colours) else ":",
                width=2.4 if k == 0 else 1.6,
                low=band.low.tolist(),
                high=band.high.tolist(),
            )
        )
    # On a linear axis, errors of the size of rounding would be indistinguishable from 0.
    positive = [y for line in lines for y in line.y if not math.isnan(y)] or [1.0]
    log = min(positive) > 0 and max(positive) / min(positive) > 100
    return Figure(title, "examples in the prompt", unit, lines, y_scale="log" if log else "linear")


def write_curves(stem: Path, title: str, errors: Mapping[str, Tensor], unit: str) -> tuple[Path, Path]:
    """Writes the figure and its table, `stem.png` and `stem.csv`, and returns their paths."""
    figure = curves_figure(title, errors, unit)
    picture = write_atomic(stem.with_name(f"{stem.name}.png"), figure.png())
    return picture, write_csv(stem.with_name(f"{stem.name}.csv"), HEADER, figure.rows())
