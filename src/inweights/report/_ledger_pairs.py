"""Numbers that trials report, against those that the paper states or theory gives for them, as an SVG image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from inweights.report._ledger_svg import COLOURS, LEFT, TOP, WIDTH, Axis

HEIGHT, RIGHT = 260, 130


@dataclass(frozen=True)
class Pairs:
    """Names of reported numbers, each with the number it should have; of the control, each with that of the value."""

    title: str
    x: str
    y: str
    value: Mapping[str, float]
    control: Mapping[str, float]


_SCALES = {"0.5, τ = 1": 0.25, "1, τ = 1": 1.0, "2, τ = 1": 4.0, "1, τ = 0.5": 4.0, "1, τ = 2": 0.25}
_GAMMAS = {10: 0.179, 25: 0.099, 50: 0.056, 100: 0.029}
PAIRS = {
    "akyurek-ridge": Pairs(
        "The penalty that fits a decoder best, and the one that is Bayes-optimal for its training",
        "σ²/τ²",
        "penalty of the closest ridge regression",
        {f"penalty at σ = {at}": ratio for at, ratio in _SCALES.items()},
        {f"penalty at σ = {at}, control": ratio for at, ratio in _SCALES.items()},
    ),
    "oswald-gamma": Pairs(
        "γ in trained weights and in the paper; the control is compared with the next number of examples",
        "the paper's γ",
        "γ in the trained weights",
        {f"γ, {n} examples": gamma for n, gamma in _GAMMAS.items()},
        {f"γ, {n} examples": _GAMMAS[m] for n, m in ((10, 25), (25, 50), (50, 100))},
    ),
}
"""The claims whose judged quantity is a distance between such numbers, so that these belong beside it."""


def pairs_figure(pairs: Pairs, told: Sequence[Mapping[str, float]]) -> str:
    """Each trial as a circle, on logarithmic axes; on the dashed line both numbers are equal. Empty without numbers."""
    points = {
        label: [(x, t[name]) for name, x in given.items() for t in told if t.get(name, 0.0) > 0]
        for label, given in (("value", pairs.value), ("negative control", pairs.control))
    }
    numbers = [n for own in points.values() for point in own for n in point if math.isfinite(n)]
    if not points["value"]:
        return ""
    axis, bottom = Axis.over(numbers, log=True), TOP + HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + axis.share(x) * (WIDTH - LEFT - RIGHT), bottom - axis.share(y) * HEIGHT

    (left, low), (right, high) = place(min(numbers), min(numbers)), place(max(numbers), max(numbers))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {bottom + 44}" role="img" aria-label="{escape(pairs.title)}" '
        'xmlns="http://www.w3.org/2000/svg">',
        f'<text x="10" y="18" class="t">{escape(pairs.title)}</text>',
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" class="a"/>',
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{bottom}" class="a"/>',
        f'<line x1="{left:.1f}" y1="{low:.1f}" x2="{right:.1f}" y2="{high:.1f}" class="e"/>',
        f'<text x="{left + 4:.1f}" y="{low + 16:.1f}" class="n">equal</text>',
    ]
    for tick in axis.ticks():
        x, y = place(tick, tick)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" class="n" text-anchor="middle">{tick:.3g}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" class="n" text-anchor="end">{tick:.3g}</text>')
    middle = TOP + HEIGHT / 2
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{bottom + 36}" class="n" text-anchor="end">{escape(pairs.x)}</text>')
    parts.append(
        f'<text x="100" y="{middle:.1f}" class="n" text-anchor="middle" transform="rotate(-90 100 {middle:.1f})">'
        f"{escape(pairs.y)}</text>"
    )
    for label, own in points.items():
        places = [place(*point) for point in own]
        colour = COLOURS[label]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="none" stroke="{colour}"/>' for x, y in places]
        if places:
            x, y = max(places)
            parts.append(f'<text x="{x + 8:.1f}" y="{y + 16:.1f}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>"])
