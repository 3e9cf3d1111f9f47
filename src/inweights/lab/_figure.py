"""Error curves as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from inweights._draw import COLOURS
from inweights._figures import Curve, Figure
from inweights.lab._bands import bootstrap


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
