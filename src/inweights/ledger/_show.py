"""What figures show of a claim's result: its trials, controls and bounds, and the meaning of verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inweights._draw import COLOURS, tidy
from inweights.ledger._criteria import Bound, Criterion
from inweights.ledger._intervals import Interval
from inweights.ledger._judge import Judged, Verdict

MEANINGS = {
    Verdict.PASS: "the sentence holds at the stated scale, and the negative control fails",
    Verdict.FAIL: "the sentence does not hold at the stated scale",
    Verdict.HOLDS_NOT_DIAGNOSTIC: "it holds, and so does a rival explanation",
    Verdict.ERRATUM: "it fails as written, by an index, a transpose or an edge case, and holds when that is corrected",
    Verdict.INCONCLUSIVE: "the interval straddles the bound, a precondition did not hold, or the control did not fail",
    Verdict.NOT_RUN: "something that the claim needs is missing, such as a training",
}


@dataclass(frozen=True)
class Strip:
    """One quantity as columns of points. `columns["value"]` and `columns["control"]` are the numbers of each trial and
    their interval; `bounds[column]` are the limits that the criteria set for that column."""

    name: str
    columns: dict[str, tuple[Sequence[float], Interval | None]]
    bounds: dict[str, list[float]]

    @classmethod
    def of(
        cls,
        name: str,
        seen: tuple[Sequence[float], Sequence[float] | None],
        rivals: Sequence[float] | None,
        judged: Judged | None,
        criterion: Criterion | None,
    ) -> Strip:
        """From the numbers of each trial, of the value and of the control, and those of the rival explanation."""
        values, controls = seen
        columns: dict[str, tuple[Sequence[float], Interval | None]] = {
            "value": (values, judged.value if judged else None)
        }
        if controls is not None:
            columns["control"] = controls, judged.control if judged else None
        if rivals is not None:
            columns["rival"] = rivals, judged.rival if judged else None
        if criterion is None:
            return cls(name, columns, {})
        bounds = {"value": _edges(criterion.bound), "control": _edges(criterion.control), "rival": []}
        return cls(name, columns, {column: bounds[column] for column in columns})

    def numbers(self) -> list[float]:
        """All finite numbers to show: values, controls and bounds."""
        seen = [n for values, _ in self.columns.values() for n in values]
        return [n for n in (*seen, *(e for edges in self.bounds.values() for e in edges)) if math.isfinite(n)]

    def draw(self, axes: Any) -> None:
        """Draws the trials next to each other in their column, the mean with its interval, and bounds as lines."""
        numbers = self.numbers()
        sizes = [abs(n) for n in numbers if n]
        wide = bool(sizes) and max(sizes) / min(sizes) > 100 and min(numbers) >= 0
        floor = min(sizes) / 10 if wide else -math.inf  # a logarithmic scale has no zero
        for at, (column, (values, result)) in enumerate(self.columns.items()):
            colour = COLOURS[{"value": "blue", "control": "orange"}.get(column, "green")]
            near = [at + 0.3 * (k - (len(values) - 1) / 2) / max(1, len(values) - 1) for k in range(len(values))]
            axes.plot(near, [max(v, floor) for v in values], linestyle="none", color=colour,
                      marker="o" if column == "value" else "s", markersize=5, markerfacecolor="none")  # fmt: skip
            if result is not None and result.low < result.high and result.finite:
                axes.plot([at + 0.3] * 2, [max(n, floor) for n in (result.low, result.high)], color=colour, linewidth=2)
                axes.plot([at + 0.3], [max(result.value, floor)], marker="_", markersize=10, color=colour)
        for column, edges in self.bounds.items():
            # A control without a bound of its own must miss the bound of the value.
            alone = bool(self.bounds.get("control"))
            at = list(self.columns).index(column)
            across = (at - 0.5, at + 0.5) if alone else (-0.6, len(self.columns) - 0.4)
            axes.hlines([max(e, floor) for e in edges], *across, color=COLOURS["grey"], linestyle="--", linewidth=1)
        axes.set(title=self.name.replace("_", " "), xlim=(-0.6, len(self.columns) - 0.4))
        axes.set_xticks(range(len(self.columns)), list(self.columns))
        axes.set_yscale("log" if wide else "linear")
        tidy(axes)
        axes.grid(visible=False, axis="x")

    def rows(self) -> list[tuple[object, ...]]:
        """Rows for each trial, then the mean with its interval (for `each`, the worst number), then the bounds."""
        rows: list[tuple[object, ...]] = []
        for column, (values, result) in self.columns.items():
            label = self.name if column == "value" else f"{self.name}, {column}"
            rows += [(label, trial, value, "", "") for trial, value in enumerate(values)]
            if result is not None:
                rows.append((f"{label}, judged", "", result.value, result.low, result.high))
        for column, edges in self.bounds.items():
            rows += [(f"{self.name}, bound of the {column}", "", edge, "", "") for edge in edges]
        return rows


def _edges(bound: Bound | None) -> list[float]:
    return [e for e in (bound.low, bound.high) if math.isfinite(e)] if bound else []
