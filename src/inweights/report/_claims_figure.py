"""The figure of a claim: the mean curves of its trials or, without curves, the value of each trial as a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from inweights._draw import COLOURS, png, svg
from inweights._figures import HEADER, Curve, Figure
from inweights._files import write_atomic, write_csv
from inweights.ledger import Entry, Strip, band

STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # gaps show lines underneath


class Drawing(Protocol):
    """A figure, and the table that it is drawn from."""

    def rows(self) -> list[tuple[object, ...]]: ...

    def png(self) -> bytes: ...

    def svg(self) -> str: ...


def figure(entry: Entry) -> Drawing:
    """The curves of the trials as means with bands or, without curves, their values next to those of the controls."""
    if not entry.plots:
        return Points(entry.id, entry.strips())
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
class Points:
    """The quantities of a claim next to each other. Trials have no order, so no line joins their points."""

    title: str
    strips: Sequence[Strip]

    def rows(self) -> list[tuple[object, ...]]:
        return [row for strip in self.strips for row in strip.rows()]

    def draw(self, axes: Any) -> None:
        """Draws the quantities side by side in place of the axes."""
        canvas = axes.figure
        axes.remove()
        for strip, own in zip(self.strips, canvas.subplots(1, len(self.strips), squeeze=False)[0], strict=True):
            strip.draw(own)
        canvas.suptitle(self.title)

    @property
    def size(self) -> tuple[float, float]:
        return (max(4.2, 2.9 * len(self.strips)), 4.2)

    def png(self) -> bytes:
        return png(self.draw, self.size)

    def svg(self) -> str:
        return svg(self.draw, self.size, self.title)
