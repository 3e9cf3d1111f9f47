"""The parts of a report on a fold: what `fold --json` and `evaluate --json` print, and the card of an adapter."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from inweights._errors import InputError
from inweights.folding import FOLD_VERDICTS, Card, card_bars, card_rows, fidelity_bars, fidelity_rows
from inweights.report._page import Section
from inweights.report._parts import Part, bars_svg, bars_table, checked

RECOVERED = (
    "Recovered is 1 − KL(prompted‖folded) / KL(prompted‖bare) on the answers to questions that the fold was not fitted "
    "to: 1 is the prompt itself, 0 no prompt. Lines are 95% intervals. The controls must be near 0."
)
LEAK = "A folded adapter leaks its prompt: whoever has the adapter can extract information about it."
AXIS = "share of 1"


class _Number(TypedDict):
    value: float
    low: float | None
    high: float | None


class _Set(TypedDict):
    name: str
    kl_bare: float
    kl_folded: float
    agree_bare: float
    agree_folded: float
    recovered: _Number
    controls: dict[str, _Number]


class _Asked(TypedDict):
    question: str
    value: str
    reference: float
    folded: float


class _Recall(TypedDict, total=False):
    accuracy: dict[str, float | None]
    shown: list[dict[str, str]]
    each: list[_Asked]
    reference: str


class _Report(TypedDict, total=False):
    sets: list[_Set]
    studied: _Set | None
    turns: list[_Set]
    recall: _Recall | None
    side_effects: dict[str, float] | None
    saved: dict[str, float] | None
    shown: list[dict[str, str]]
    verdict: str
    warnings: list[str]


def fold_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """What `fold --json` or `evaluate --json` printed."""
    whole = values["fidelity"]
    report: Any = checked(_Report, whole if isinstance(whole, dict) else {}, name)
    if not {"sets", "verdict"} <= report.keys():
        raise InputError(f"{name} has a 'fidelity' without 'sets' or 'verdict': run the command again.")
    bars, beside = fidelity_bars(report), f"report-{stem}.csv"
    rows = [(label, value) for label, value in fidelity_rows(report) if label not in ("verdict", "warning")]
    for key in ("method", "rank", "calibration_queries", "studied", "seconds_total"):
        if isinstance(values.get(key), int | float | str):
            rows.append((key.replace("_", " "), f"{values[key]:.0f}" if key == "seconds_total" else str(values[key])))
    sections = [
        Section(
            f"Fold: {stem}",
            [FOLD_VERDICTS.get(report["verdict"], ""), RECOVERED, LEAK, *report.get("warnings", ())],
            svg=bars_svg(bars, AXIS, "What is recovered, with controls"),
            verdict=report["verdict"],
            data_file=beside,
            header=("", "measured"),
            rows=rows,
        )
    ]
    recall = report.get("recall") or {}
    if recall.get("each"):
        sections.append(_facts(recall["each"], recall.get("reference", "prompted")))
    about = recall.get("shown") or []
    for title, shown in (("Questions about the prompt", about), ("Other questions", report.get("shown") or [])):
        if shown:
            answers = [
                (each.get("question", ""), who, each[who])
                for each in shown
                for who in ("prompted", "bare", "folded")
                if who in each
            ]
            sections.append(Section(title, header=("question", "", "answer"), rows=answers))
    return Part(sections, {beside: bars_table(bars)})


def _facts(each: list[_Asked], reference: str) -> Section:
    """Which facts of the prompt the fold knows: those that it does not know come first."""
    rows = [
        (e["question"], e["value"], _right(e["reference"]), _right(e["folded"]))
        for e in sorted(each, key=lambda e: e["folded"])
    ]
    return Section("Which facts are known", header=("question", "value", reference, "folded"), rows=rows)


def _right(score: float) -> str:
    return {0.0: "no", 1.0: "yes"}.get(score, f"{score:.2f}")


def card_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """The card of an adapter folder, `inweights.json`."""
    card = Card.of(values)
    section = Section(f"Adapter: {stem}", (LEAK,), header=("", ""), rows=card_rows(card))
    if not card.fidelity:
        return Part([section, Section("What it keeps", ("This adapter was not measured.",))])
    try:
        bars = card_bars(card.fidelity)
        figure = bars_svg(bars, AXIS, "What is recovered, with controls")
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{name} has a 'fidelity' that no fold writes: fold again.") from None
    beside = f"report-{stem}-card.csv"
    kept = Section("What it keeps", (RECOVERED,), svg=figure, data_file=beside)
    return Part([section, kept], {beside: bars_table(bars)})
