"""The judged quantity of a claim as an SVG image: each trial, the judged interval, control, rival, and the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from inweights.ledger import Bound, Criterion, Interval

WIDTH, LEFT, RIGHT, ROW, TOP = 640, 150, 24, 34, 34
COLOURS = {"value": "#0072B2", "negative control": "#D55E00", "rival explanation": "#009E73"}


@dataclass(frozen=True)
class Row:
    """One line of the figure: the number of each trial, and the interval by which it is judged."""

    label: str
    trials: Sequence[float]
    judged: Interval | None


@dataclass(frozen=True)
class Axis:
    """An axis; logarithmic if all numbers are positive and the largest is over 100 times the smallest, or if asked."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, numbers: Sequence[float], *, log: bool = False) -> Axis:
        finite = [n for n in numbers if math.isfinite(n)] or [0.0]
        positive = [n for n in finite if n > 0]
        if positive and min(finite) >= 0 and (log or max(positive) > 100 * min(positive)):
            return cls(math.log10(min(positive)) - 0.3, math.log10(max(positive)) + 0.3, True)
        room = 0.08 * (max(finite) - min(finite)) or 0.1 * abs(finite[0]) or 1.0
        return cls(min(finite) - room, max(finite) + room, False)

    def share(self, number: float) -> float:
        """Where a number is, from 0 at the low end to 1 at the high one; numbers beyond the ends are at the ends."""
        value = (math.log10(number) if number > 0 else -math.inf) if self.log else number
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def at(self, number: float) -> float:
        """The horizontal position of a number."""
        return LEFT + self.share(number) * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(self.low), math.floor(self.high)
            if last - first < 2:
                finer = (m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5))
                return [n for n in finer if self.low <= math.log10(n) <= self.high]
            every = max(1, round((last - first) / 5))
            return [10.0**k for k in range(first, last + 1, every)]
        rough = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(rough))
        step = min((m * size for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [k * step for k in range(first, last + 1)]


def in_words(criterion: Criterion) -> str:
    """What a criterion requires, as half a sentence."""
    kind = "every single one" if criterion.each else "the geometric mean" if criterion.scale else "the mean"
    text = f"{kind} must be {_side(criterion.bound)}"
    return f"{text}, that of the control {_side(criterion.control)}" if criterion.control else text


def _side(bound: Bound) -> str:
    if math.isinf(bound.low):
        return f"below {bound.high:g}"
    return f"above {bound.low:g}" if math.isinf(bound.high) else f"between {bound.low:g} and {bound.high:g}"


def judged_figure(title: str, criterion: Criterion, rows: Sequence[Row], label: str) -> str:
    """An SVG image of one quantity; `label` says what the axis shows. The bound is the shaded range."""
    edges = [e for e in (criterion.bound.low, criterion.bound.high) if math.isfinite(e)]
    ends = [n for r in rows if r.judged for n in (r.judged.value, r.judged.low, r.judged.high)]
    axis = Axis.over([*edges, *ends, *(n for r in rows for n in r.trials)])
    bottom = TOP + ROW * len(rows)
    start, end = axis.at(criterion.bound.low), axis.at(criterion.bound.high)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {bottom + 44}" role="img" aria-label="{escape(f"{title}; {label}")}" '
        'xmlns="http://www.w3.org/2000/svg">',
        f'<text x="10" y="18" class="t">{escape(title)}</text>',
        f'<rect x="{start:.1f}" y="{TOP}" width="{end - start:.1f}" height="{bottom - TOP}" class="b"/>',
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" class="a"/>',
    ]
    for edge in edges:
        x = axis.at(edge)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" class="e"/>')
    for tick in axis.ticks():
        x = axis.at(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}" class="a"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" class="n" text-anchor="middle">{tick:.3g}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{bottom + 36}" class="n" text-anchor="end">{escape(label)}</text>')
    for k, row in enumerate(rows):
        parts += _drawn(row, axis, TOP + ROW * k + ROW / 2)
    return "\n".join([*parts, "</svg>"])


def _drawn(row: Row, axis: Axis, y: float) -> list[str]:
    colour = COLOURS[row.label]
    parts = [f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end" fill="{colour}">{escape(row.label)}</text>']
    for number in row.trials:
        if math.isfinite(number):
            parts.append(f'<circle cx="{axis.at(number):.1f}" cy="{y + 6:.1f}" r="3.5" fill="none" stroke="{colour}"/>')
    if row.judged is not None and math.isfinite(row.judged.value):
        low, high, x = (axis.at(n) for n in (row.judged.low, row.judged.high, row.judged.value))
        parts.append(
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y - 5:.1f}" y2="{y - 5:.1f}" stroke="{colour}" '
            'stroke-width="3"/>'
        )
        diamond = f"M{x:.1f} {y - 11:.1f}l5 6l-5 6l-5 -6z"
        parts.append(f'<path d="{diamond}" fill="{colour}"/>')
    return parts
