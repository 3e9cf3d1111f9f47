"""The figure of a claim: the mean curves of its trials or, without curves, the value of each trial as a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from inweights._files import write_atomic, write_csv
from inweights.ledger import Bound, Criterion, Entry, Interval, band, criteria
from inweights.report._figures import COLOURS, HEADER, Curve, Figure, drawn

STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # gaps show lines underneath


class Drawing(Protocol):
    """A figure, and the table that it is drawn from."""

    def rows(self) -> list[tuple[object, ...]]: ...

    def png(self) -> bytes: ...


def figure(entry: Entry) -> Drawing:
    """The curves of the trials as means with bands or, without curves, their values next to those of the controls."""
    if not entry.plots:
        needed = criteria()[entry.id].quantities
        return Points(entry.id, [Strip.of(name, entry, needed.get(name)) for name in entry.seen])
    first, colours, lines = entry.plots[0], list(COLOURS), []
    for k, name in enumerate(first["lines"]):
        of_trials = torch.tensor([p["lines"][name] for p in entry.plots], dtype=torch.float64)
        middle, low, high = band(of_trials)
        lines.append(
            Curve(
                name,
                first["x"],
                middle,
                colour=colours[k % len(colours)],
                style=STYLES[k % len(STYLES)],
                marker="o" if len(middle) < 12 else "",
                low=low,
                high=high,
            )
        )
    return Figure(
        first["title"], first["x_label"], first["y_label"], lines,
        x_scale="log" if "x" in first["log"] else "linear", y_scale="log" if "y" in first["log"] else "linear",
    )  # fmt: skip


def write_figure(folder: Path, entry: Entry) -> list[Path]:
    """Writes `ID.png` and `ID.csv`, and returns their paths; nothing for a claim that was not run."""
    if not entry.seen:
        return []
    made = figure(entry)
    return [
        write_atomic(folder / f"{entry.id}.png", made.png()),
        write_csv(folder / f"{entry.id}.csv", HEADER, made.rows()),
    ]


@dataclass(frozen=True)
class Strip:
    """One quantity as columns of points. `columns["value"]` and `columns["control"]` are the numbers of each trial and
    their interval; `bounds[column]` are the limits that the criteria set for that column."""

    name: str
    columns: dict[str, tuple[Sequence[float], Interval | None]]
    bounds: dict[str, list[float]]

    @classmethod
    def of(cls, name: str, entry: Entry, criterion: Criterion | None) -> Strip:
        values, controls = entry.seen[name]
        judged = entry.quantities.get(name)
        columns: dict[str, tuple[Sequence[float], Interval | None]] = {
            "value": (values, judged.value if judged else None)
        }
        if controls is not None:
            columns["control"] = controls, judged.control if judged else None
        if name in entry.rivals:
            columns["rival"] = entry.rivals[name], judged.rival if judged else None
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
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25, linewidth=0.6)

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


@dataclass(frozen=True)
class Points:
    """The quantities of a claim next to each other. Trials have no order, so no line joins their points."""

    title: str
    strips: Sequence[Strip]

    def rows(self) -> list[tuple[object, ...]]:
        return [row for strip in self.strips for row in strip.rows()]

    def png(self) -> bytes:
        def draw(axes: Any) -> None:
            canvas = axes.figure
            axes.remove()
            for strip, own in zip(self.strips, canvas.subplots(1, len(self.strips), squeeze=False)[0], strict=True):
                strip.draw(own)
            canvas.suptitle(self.title)

        return drawn(draw, size=(max(4.2, 2.9 * len(self.strips)), 4.2))


def _edges(bound: Bound | None) -> list[float]:
    return [e for e in (bound.low, bound.high) if math.isfinite(e)] if bound else []
