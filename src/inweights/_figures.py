"""Figures of curves with the tables that they are drawn from, and heat-maps; as PNG or SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inweights._draw import COLOURS, draw_heatmap, heatmap_size, plainly, png, svg


@dataclass(frozen=True)
class Curve:
    """One line of a figure, with an optional band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = "blue"
    style: Literal["-", "--", ":"] = "-"
    width: float = 2.0
    marker: str = ""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Figure:
    """A plot of curves. `rows()` is the table that it is drawn from."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve] = field(default_factory=tuple)
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"

    def rows(self) -> list[tuple[object, ...]]:
        """The table in long form: curve, x, y, low, high."""
        return [
            (c.label, x, y, c.low[i] if c.low else "", c.high[i] if c.high else "")
            for c in self.curves
            for i, (x, y) in enumerate(zip(c.x, c.y, strict=True))
        ]

    def draw(self, axes: Any) -> None:
        """Draws the curves on matplotlib axes."""
        for c in self.curves:
            colour = COLOURS[c.colour]
            axes.plot(
                c.x, c.y, c.style, label=c.label, color=colour, linewidth=c.width, marker=c.marker,
                markersize=5, markerfacecolor="none",
            )  # fmt: skip
            if c.low is not None and c.high is not None:
                axes.fill_between(c.x, c.low, c.high, color=colour, alpha=0.18, linewidth=0)
        axes.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label)
        axes.set_xscale(self.x_scale)
        axes.set_yscale(self.y_scale)
        at = sorted({x for c in self.curves for x in c.x})
        if self.x_scale == "log" and len(at) <= 8:  # ticks at 1, 2, 4, 8 instead of powers of ten
            axes.set_xticks(at, [f"{x:g}" for x in at])
            axes.minorticks_off()
        plainly([axes.title, *axes.legend(frameon=False).get_texts()])

    def png(self) -> bytes:
        """The figure as PNG."""
        return png(self.draw)

    def svg(self, label: str = "") -> str:
        """The figure as SVG for a page; `label` for readers who do not see it, by default the title."""
        return svg(self.draw, label=label or self.title)


HEADER = ("curve", "x", "y", "low", "high")


def heatmap(values: Sequence[Sequence[float]], columns: Sequence[str], title: str) -> bytes:
    """A heat-map of layers (rows) by tokens (columns) as PNG."""

    def draw(axes: Any) -> None:
        draw_heatmap(axes, values, columns, "‖ΔWᵢ₊₁ − ΔWᵢ‖")
        axes.set(title=title)

    return png(draw, heatmap_size(columns))
