"""Figures and tables of a fold: its card, the sizes of its updates, its fidelity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inweights._draw import Bar
from inweights.folding._card import Card

ANSWERED_WITH = {
    "prompted": "the whole prompt", "window": "the passage with the answer", "retrieved": "passages by BM25",
    "bare": "nothing", "folded": "the fold", "random": "control: random updates of equal norms",
}  # fmt: skip
"""The labels of those who answer questions about the prompt."""


FOLD_VERDICTS = {
    "GOOD": "The folded model answers much like the prompted one, right or wrong.",
    "PARTIAL": "Part of what the prompt does is lost; see the tables.",
    "FAILED": "It is not certain that anything of the prompt is kept; do not use this fold.",
}
"""What the verdict on a fold means."""


def card_rows(card: Card) -> list[tuple[str, str]]:
    """The card as names and values."""
    rows = [
        ("base model", card.base or "not known"),
        ("stands for", f"a {'system prompt' if card.chat else 'text before the query'} of {card.prompt_tokens} tokens"),
        ("method, rank, strength", f"{card.method or 'not known'}, {card.rank}, {card.strength:g}"),
    ]
    queries = card.calibration.get("queries")
    return rows if queries is None else [*rows, ("calibration queries", str(queries))]


def fidelity_bars(report: Mapping[str, Any]) -> list[Bar]:
    """The bars of a report, as `Fidelity.as_json` has it: what is recovered with its controls, then right answers."""
    bars = []
    for s in [*report["sets"], *([report["studied"]] if report.get("studied") else [])]:
        bars.append(_bar(f"recovered, {s['name']}", s["recovered"], "blue"))
        bars += [_bar(f"control: {name}", r, "orange") for name, r in (s.get("controls") or {}).items()]
    bars += [_bar(f"recovered, {t['name']}", t["recovered"], "blue") for t in report.get("turns") or ()]
    shares = (report.get("recall") or {}).get("accuracy") or {}
    return bars + [_share(who, share) for who, share in shares.items() if share is not None]


def card_bars(table: Mapping[str, Any]) -> list[Bar]:
    """The same of what a card has of its report."""
    bars = []
    for name, row in table.items():
        value = row.get("recovered") if isinstance(row, dict) else None
        if isinstance(value, dict):
            control = name.startswith("control")
            bars.append(_bar(name if control else f"recovered, {name}", value, "orange" if control else "blue"))
    shares = table.get("right answers to questions about the prompt") or {}
    return bars + [_share(who, share) for who, share in shares.items() if isinstance(share, int | float)]


def _bar(label: str, value: Mapping[str, Any], colour: str) -> Bar:
    return Bar(label, value["value"], value.get("low"), value.get("high"), colour)


def _share(who: str, share: float) -> Bar:
    colour = {"folded": "blue", "random": "orange"}.get(who, "grey")
    return Bar(f"right answers with {ANSWERED_WITH.get(who, who)}", share, colour=colour)


def fidelity_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A report as names and values."""
    rows = [("verdict", report["verdict"])]
    for s in report["sets"]:
        rows.append((f"KL to the prompted model, {s['name']}", f"{s['kl_bare']:.4f} bare, {s['kl_folded']:.4f} folded"))
        rows.append(("same next token", f"{s['agree_bare']:.1%} bare, {s['agree_folded']:.1%} folded"))
    side, saved = report.get("side_effects"), report.get("saved")
    if side:
        rows.append(("unrelated text, KL a token", f"{side['kl_folded']:.4f} (the prompt: {side['kl_prompted']:.4f})"))
    if saved:
        rows.append(("prompt tokens saved at every request", f"{saved['tokens']:.0f}"))
    return rows + [("warning", text) for text in report.get("warnings") or ()]


def draw_norms(axes: Any, norms: Mapping[str, float], *, relative: bool) -> None:
    """The size of each update: a column for each layer, a row for each kind of matrix."""
    parts = {name: re.search(r"\.(\d+)\.", name) for name in norms}
    layers = sorted({int(m[1]) for m in parts.values() if m})
    kinds = list(dict.fromkeys(_kind(name) for name in norms))
    grid = [[float("nan")] * max(1, len(layers)) for _ in kinds]
    for name, size in norms.items():
        layer = parts[name]
        grid[kinds.index(_kind(name))][layers.index(int(layer[1])) if layer else 0] = size
    image = axes.imshow(grid, aspect="auto", cmap="viridis")
    axes.grid(visible=False)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_xticks(*_ticks(layers))
    axes.set(xlabel="layer", title="size of the updates")
    axes.figure.colorbar(image, ax=axes, label="‖ΔW‖/‖W‖" if relative else "‖ΔW‖")


def _kind(name: str) -> str:
    """The name of a matrix without its layer."""
    return re.sub(r"^.*\.\d+\.", "", name).removesuffix(".weight")


def _ticks(layers: Sequence[int]) -> tuple[list[int], list[str]]:
    step = max(1, len(layers) // 15)
    return list(range(0, len(layers), step)), [str(n) for n in layers[::step]]
