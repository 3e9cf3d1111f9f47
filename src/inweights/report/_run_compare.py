"""The part of a report on in-context learning and gradient descent: what `compare` writes with `--out` or `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from inweights._compared import ABOUT, ALONG, HYPOTHESES, Sides, Table, further, measured, orders_note, setting, sides
from inweights._compared import MEASURES as SHOWN
from inweights._errors import InputError
from inweights._figures import HEADER
from inweights.report._compare import MEASURES, along_descent
from inweights.report._page import Section
from inweights.report._parts import Part, checked
from inweights.report._parts import Table as TableData

Rows = dict[str, dict[str, list[float | None]]]


class _Finding(TypedDict, total=False):
    hypothesis: int
    sentence: str
    verdict: str
    value: float | None
    low: float | None
    high: float | None


class _Compared(TypedDict):
    setting: dict[str, Any]
    accuracy: Rows
    order_sensitivity: Rows
    token_overlap: Rows
    kl: Rows
    curves: dict[str, list[dict[str, Any]]]
    verdicts: dict[str, _Finding]


ABREAST = 4


def compare_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """The tables of the record, its verdicts, and figures along gradient descent: each measure of full-batch descent,
    the two main ones of the other ways; a table beside the page has all of them."""
    read: Any = checked(_Compared, values, name)
    try:
        known, more = measured(values), further(values)
        lead = (f"Setting: {setting(values)}.", known.note, orders_note(values))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{name} is not what the command wrote: run compare again.") from None
    results = [
        (
            str(f.get("hypothesis", "")),
            which.replace("_", " "),
            f.get("verdict", ""),
            f.get("sentence", ""),
            _cell([f.get(end) for end in ("value", "low", "high")]),
        )
        for which, f in read["verdicts"].items()
    ]
    sections = [
        *_measures(f"In-context learning and gradient descent: {stem}", known, lead),
        Section(
            "What follows", (HYPOTHESES,), header=("hypothesis", "", "verdict", "", "measured [95%]"), rows=results
        ),
    ]
    table = sides(values)
    tables: dict[str, TableData] = {f"report-{stem}-curves.csv": _points(read["curves"])}
    for way, measure, title in _drawn(values, table):
        try:
            figure = along_descent(values, table, measure, title, way)
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{name} has no curve of {measure!r} along gradient descent: run compare again.") from None
        beside = f"report-{stem}-{measure}.csv" if way == "gd" else f"report-{stem}-{way}-{measure}.csv"
        sections.append(Section(title, svg=figure.svg(), data_file=beside))
        tables[beside] = (HEADER, figure.rows())
    sections += [_section(t, t.note) for t in more]
    return Part(sections, tables)


def _measures(title: str, known: Table, lead: Sequence[str]) -> list[Section]:
    """The measures, as many beside each other as a page is wide: what a table hides at its side is lost in print."""
    results = []
    for first in range(1, len(known.header), ABREAST):
        here = slice(first, first + ABREAST)
        rows = [[row[0], *row[here]] for row in known.rows if any(row[here])]
        part = Table(
            title if first == 1 else "The same, further measures", [known.header[0], *known.header[here]], rows
        )
        results.append(_section(part, *(lead if first == 1 else ())))
    return results


def _drawn(values: dict[str, Any], table: Sides) -> list[tuple[str, str, str]]:
    """What is drawn, as way, measure and title: of full-batch descent every measure that was recorded with an interval
    for in-context learning, of others the main ones."""
    results = [("gd", measure, title) for measure, title in MEASURES.items()]
    points, known = values["curves"].get("gd") or [{}], table.get("in-context", {})
    results += [
        ("gd", m, SHOWN[m][0])
        for m in ALONG
        if m not in MEASURES and points[0].get(m) is not None and len(known.get(m, [])) == 3
    ]
    others = [way for way, own in values["curves"].items() if way != "gd" and own]
    return results + [(way, m, f"{ABOUT.get(way, way)}: {title}") for way in others for m, title in MEASURES.items()]


def _points(curves: dict[str, list[dict[str, Any]]]) -> TableData:
    """Each checkpoint of each way with all that was measured there."""
    names = list(dict.fromkeys(k for points in curves.values() for p in points for k in p))
    return ["way", *names], [[way, *(p.get(k, "") for k in names)] for way, points in curves.items() for p in points]


def _section(table: Table, *paragraphs: str) -> Section:
    rows = [[c if isinstance(c, str) else _cell(c) for c in row] for row in table.rows]
    return Section(table.title, [p for p in paragraphs if p], header=table.header, rows=rows)


def _cell(numbers: list[float | None] | None) -> str:
    known = [n for n in numbers or [] if n is not None]
    if len(known) == 3:
        return f"{known[0]:.3g} [{known[1]:.2g},\u00a0{known[2]:.2g}]"
    return ", ".join(f"{n:.3g}" for n in known)
