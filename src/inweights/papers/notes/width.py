"""Note 004, section 6.2: how many functions of a pool decoders of different widths hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers.notes.parts import exponent, held

HALF, LAYERS = 0.5, (2, 8)


def capacity(sizes: Sequence[int], shares: Sequence[float]) -> float:
    """How many functions are half held: the size of pool at which the share that is held falls below a half, on a line
    in the logarithm of the size. A pool of one is held by every model, and more than the largest is not counted."""
    places = [0.0, *(math.log2(size) for size in sizes)]
    line = [1.0, *shares]
    for k in range(1, len(line)):
        if line[k] < HALF:
            step = (line[k - 1] - HALF) / (line[k - 1] - line[k])
            return float(2 ** (places[k - 1] + step * (places[k] - places[k - 1])))
    return float(sizes[-1])


@claim("note-width-pools", NOTES, "004, section 6.2, width", cost=(45, 1100))
def pools(trial: Trial) -> Measurement:
    """The number of functions that a model holds at once grows with its width.

    Measured: the exponent with which that number grows with the width of a decoder, 8, 16 and 32. It is the size of a
    pool of which half is held, in the sense of note-width, interpolated between pools of 2, 4, 8 and 16 functions.

    Control: the same of pools of 2 alone, which all widths hold if the narrow one is trained well enough.

    Rival: parameters of any kind: the exponent with the number of layers, 2 and 8, of width 8.

    Settings: those of note-width; quick: widths 8 and 32, pools of 2 and 8.
    """
    widths, sizes = trial.size((8, 32), (8, 16, 32)), trial.size((2, 8), (2, 4, 8, 16))
    wide = [[held(trial, width, size) for size in sizes] for width in widths]
    deep = [wide[0], [held(trial, widths[0], size, layers=LAYERS[1]) for size in sizes]]
    by_width, by_depth = ([capacity(sizes, line) for line in lines] for lines in (wide, deep))
    few = [capacity(sizes[:1], line[:1]) for line in wide]
    lines = {f"width {width}": line for width, line in zip(widths, wide, strict=True)}
    return Measurement(
        {"exponent": (exponent(widths, by_width), exponent(widths, few))},
        plot=Plot("What decoders hold of a pool", "functions", "share", sizes, lines, log="x"),
        reported={f"functions, width {width}": c for width, c in zip(widths, by_width, strict=True)}
        | {f"functions, {depth} layers": c for depth, c in zip(LAYERS, by_depth, strict=True)},
        rivals={"exponent": exponent(LAYERS, by_depth)},
    )
