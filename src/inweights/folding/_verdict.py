"""The verdict on a fold: one word that summarises its report."""

from __future__ import annotations

import math
from collections.abc import Sequence

RETAINED, RECOVERED = 0.9, 0.8


def verdict(
    recovered: tuple[float, float | None] | None, retained: tuple[float, float] | None, numbers: Sequence[float] = ()
) -> str:
    """`GOOD`, `PARTIAL` or `FAILED`.

    **Arguments:**

    - `recovered`, `retained`: each with the lower end of its 95% interval; `None` where it does not apply: a context
      without facts retains none, and of few queries there is no interval.
    - `numbers`: further numbers that must be finite.

    `FAILED` if an interval reaches 0 or anything is not finite; `GOOD` if 0.9 is retained and 0.8 recovered.
    """
    values = [v for pair in (recovered, retained) if pair is not None for v in pair if v is not None]
    if not values or not all(map(math.isfinite, (*values, *numbers))):
        return "FAILED"
    ends = [pair[0] if pair[1] is None else pair[1] for pair in (recovered, retained) if pair is not None]
    if min(ends) <= 0:
        return "FAILED"
    good = (recovered is None or recovered[0] >= RECOVERED) and (retained is None or retained[0] >= RETAINED)
    return "GOOD" if good else "PARTIAL"


def reasons(recovered: float | None, retained: float | None, studied: bool = False) -> str:
    """The numbers that the verdict follows from, each with what `GOOD` needs; empty if there are none.

    `studied`: whether what is recovered was measured on questions about the prompt.
    """
    on = "of its effect on other questions" if retained is not None else "of the prompt's effect"
    on = "of its effect on studied questions that were kept apart" if studied else on
    parts = (
        (retained, RETAINED, "of the right answers about the prompt are retained"),
        (recovered, RECOVERED, f"{on} is recovered"),
    )
    return "; ".join(f"{value:.2f} {what} (GOOD needs {least:g})" for value, least, what in parts if value is not None)
