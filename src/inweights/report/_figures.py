"""Figures, drawn by matplotlib without a display and returned as PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inweights._errors import InputError

# The palette of Okabe and Ito, which readers with colour blindness can distinguish.
COLOURS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "grey": "#6b7280",
    "black": "#111827",
}


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

    def png(self) -> bytes:
        """The figure as PNG."""

        def draw(axes: Any) -> None:
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
            axes.legend(frameon=False)

        return drawn(draw)


HEADER = ("curve", "x", "y", "low", "high")


def heatmap(values: Sequence[Sequence[float]], columns: Sequence[str], title: str) -> bytes:
    """A heat-map of layers (rows) by tokens (columns) as PNG. The colour scale is logarithmic, as attention sinks are
    large."""
    floor = min((v for row in values for v in row if v > 0), default=1e-12)
    top = max((v for row in values for v in row), default=1.0)

    def draw(axes: Any) -> None:
        from matplotlib.colors import LogNorm

        shown = [[max(v, floor) for v in row] for row in values]
        image = axes.imshow(shown, aspect="auto", cmap="viridis", norm=LogNorm(floor, max(top, floor * 1.001)))
        axes.grid(visible=False)
        axes.set(title=title, xlabel="context token", ylabel="layer")
        step = max(1, len(columns) // 60)
        axes.set_xticks(range(0, len(columns), step), columns[::step], rotation=90, fontsize=6)
        axes.figure.colorbar(image, label="‖ΔWᵢ₊₁ − ΔWᵢ‖")

    return drawn(draw, size=(max(6.4, min(16.0, 0.18 * len(columns))), 5.0))


def drawn(draw: Callable[[Any], None], size: tuple[float, float] = (6.4, 4.2)) -> bytes:
    """A PNG with the content that `draw` puts on a pair of axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise InputError("Figures need matplotlib: install it with pip install 'inweights[lab]'.") from None
    canvas = Canvas(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    draw(axes)
    out = io.BytesIO()
    canvas.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()
