"""Drawing that all subpackages share: figures as PNG or SVG, and values that show themselves in notebooks.

matplotlib is loaded when something is drawn. SVG figures have no background and draw text in the colour of the page
around them, so that they are readable on light and dark pages.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

from inweights._errors import InputError

# The palette of Okabe and Ito, which readers with colour blindness can distinguish.
COLOURS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "grey": "#6b7280",
    "black": "#111827",
}
INK = COLOURS["black"]
"""The colour of text and axes; in SVG figures that of the page."""
NEEDED = "Figures need matplotlib: install it with pip install 'inweights[lab]'."
SIZE = (6.4, 4.2)
Draw = Callable[[Any], None]
"""Draws on a pair of matplotlib axes."""


@contextmanager
def _axes(size: tuple[float, float], settings: Any) -> Iterator[Any]:
    """Axes of a new figure that no window shows. Characters that the font lacks are no reason to warn."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise InputError(NEEDED) from None
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        canvas = Canvas(figsize=size, dpi=150, layout="constrained")
        FigureCanvasAgg(canvas)
        axes = canvas.add_subplot()
        tidy(axes)
        yield axes


def tidy(axes: Any) -> None:
    """Axes without a box, with a pale grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def png(draw: Draw, size: tuple[float, float] = SIZE) -> bytes:
    """A PNG of what `draw` puts on a pair of axes."""
    with _axes(size, {}) as axes:
        canvas, out = axes.figure, io.BytesIO()
        draw(axes)
        canvas.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def svg(draw: Draw, size: tuple[float, float] = SIZE, label: str = "") -> str:
    """The same as SVG for a page: no references to other resources, `label` for readers who do not see it."""
    parts = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor")
    settings = dict.fromkeys(parts, INK) | {"svg.fonttype": "none", "svg.hashsalt": "inweights"}
    with _axes(size, settings) as axes:
        canvas, out = axes.figure, io.StringIO()
        draw(axes)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", transparent=True, metadata=nothing)
    text = out.getvalue()
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text[text.index("<svg") :])
    text = re.sub(re.escape(INK), "currentColor", text, flags=re.IGNORECASE)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def new_axes(size: tuple[float, float], columns: int = 1) -> list[Any]:
    """Axes of pyplot, which notebooks show by themselves."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise InputError(NEEDED) from None
    _, axes = pyplot.subplots(1, columns, figsize=size, layout="constrained", squeeze=False)
    for each in axes[0]:
        tidy(each)
    return list(axes[0])


@dataclass(frozen=True)
class Bar:
    """A number to show beside others, with its interval if it has one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: str = "blue"


def draw_bars(axes: Any, bars: Sequence[Bar], x_label: str, *, log: bool = False, title: str = "") -> None:
    """Numbers below each other, the first on top; on a logarithmic axis as points, as it has no zero to start from."""
    shown = [b for b in bars if math.isfinite(b.value)]
    sizes = [b.value for b in shown if b.value > 0]
    floor = min(sizes, default=1.0) / 10
    for y, bar in enumerate(shown):
        colour = COLOURS[bar.colour]
        if log:
            at = max(bar.value, floor)
            axes.plot([at], [y], "o", color=colour, markersize=9)
            axes.annotate(f"{bar.value:.2g}", (at, y), xytext=(0, 9), textcoords="offset points", ha="center")
        else:
            axes.barh([y], [bar.value], color=colour, height=0.6)
            text = f"{bar.value:.3g}"
            end = max(bar.value, bar.high if bar.high is not None else bar.value, 0.0)
            axes.annotate(text, (end, y), xytext=(4, 0), textcoords="offset points", va="center")
        if bar.low is not None and bar.high is not None:
            axes.plot([bar.low, bar.high], [y, y], color=INK, linewidth=1.6)
    if log:
        axes.set_xscale("log")
        axes.margins(x=0.12, y=0.3)
    else:
        axes.margins(x=0.16)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), [b.label for b in shown])
    axes.set(xlabel=x_label, title=title)
    plainly([*axes.get_yticklabels(), axes.title])
    axes.grid(visible=False, axis="y")


def bars_size(bars: Sequence[Bar]) -> tuple[float, float]:
    """The size of a figure of so many bars."""
    return (6.4, 1.1 + 0.42 * len(bars))


def draw_heatmap(axes: Any, values: Sequence[Sequence[float]], columns: Sequence[str], label: str) -> None:
    """Layers (rows) by tokens (columns). The colour scale is logarithmic, as attention sinks are large."""
    from matplotlib.colors import LogNorm

    floor = min((v for row in values for v in row if v > 0), default=1e-12)
    top = max((v for row in values for v in row), default=1.0)
    shown = [[max(v, floor) for v in row] for row in values]
    image = axes.imshow(shown, aspect="auto", cmap="viridis", norm=LogNorm(floor, max(top, floor * 1.001)))
    axes.grid(visible=False)
    axes.set(xlabel="context token", ylabel="layer")
    axes.yaxis.get_major_locator().set_params(integer=True)
    step = max(1, len(columns) // 60)
    axes.set_xticks(range(0, len(columns), step), [readable(c) for c in columns[::step]], rotation=90, fontsize=6)
    plainly(axes.get_xticklabels())
    axes.figure.colorbar(image, ax=axes, label=label)


def heatmap_size(columns: Sequence[str]) -> tuple[float, float]:
    """The size of a figure of so many tokens."""
    return (max(6.4, min(16.0, 0.18 * len(columns))), 5.0)


def readable(token: str) -> str:
    """A token as text, with the marks of byte-level tokenizers as blank and return."""
    text = token.replace("Ġ", " ").replace("Ċ", "⏎")
    return "".join(c if c.isprintable() else "·" for c in text)


def plainly(texts: Sequence[Any]) -> None:
    """Labels from outside as they are: a dollar sign begins no formula."""
    for text in texts:
        text.set_parse_math(False)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML; all texts are escaped."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    head = f"<thead>{row(header, 'th')}</thead>" if header else ""
    body = "\n".join(row(cells, "td") for cells in rows)
    wide = 'class="wide" tabindex="0" role="region" aria-label="table"'  # scrolled by keyboard, too
    return f"<div {wide}><table>{head}<tbody>{body}</tbody></table></div>"


class Shown:
    """A value that draws itself: `plot()` on matplotlib axes, and in notebooks as a table with that figure."""

    def _draw(self, axes: Any) -> None:
        raise NotImplementedError

    def _rows(self) -> list[tuple[str, str]]:
        """The rows of the table: names and values."""
        raise NotImplementedError

    def _size(self) -> tuple[float, float]:
        return SIZE

    def plot(self, axes: Any = None) -> Any:
        """Draws on `axes`, by default on new ones of `matplotlib.pyplot`, and returns them."""
        if axes is None:
            (axes,) = new_axes(self._size())
        self._draw(axes)
        return axes

    def _repr_html_(self) -> str:
        """What a notebook shows; without matplotlib the table alone, with a sentence on what is missing."""
        rows = html_table((), self._rows())
        try:
            return rows + svg(self._draw, self._size(), type(self).__name__)
        except InputError as error:
            return f"{rows}<p>{escape(str(error))}</p>"
