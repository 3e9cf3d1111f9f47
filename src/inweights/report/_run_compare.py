"""The part of a report on in-context learning and gradient descent: what `compare` writes with `--out` or `--json`."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from inweights._errors import InputError
from inweights._figures import HEADER
from inweights.report._compare import MEASURES, along_descent
from inweights.report._page import Section
from inweights.report._parts import Part, checked

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


COLUMNS = {
    "accuracy": ("accuracy", "accuracy"),
    "accuracy_labels": ("accuracy", "accuracy over labels"),
    "sensitivity": ("order_sensitivity", "order sensitivity"),
    "token_overlap": ("token_overlap", "token overlap"),
    "kl": ("kl", "KL"),
}
"""By measure: the key that has it, and its heading."""


def compare_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """The verdicts, the table, and a figure for each measure along gradient descent."""
    read: Any = checked(_Compared, values, name)
    sides = list(dict.fromkeys(side for key, _ in COLUMNS.values() for side in read[key]))
    rows = [
        (side, *(_cell(read[key].get(side, {}).get(measure)) for measure, (key, _) in COLUMNS.items()))
        for side in sides
    ]
    results = [
        (
            str(f.get("hypothesis", "")),
            which.replace("_", " "),
            f.get("verdict", ""),
            f.get("sentence", ""),
            _cell(_interval(f)),
        )
        for which, f in read["verdicts"].items()
    ]
    setting = read["setting"]
    sections = [
        Section(
            f"In-context learning and gradient descent: {stem}",
            (
                f"Task {setting.get('task')}, model {setting.get('model')}. In the rows of gradient descent each "
                "measure is that of its own best checkpoint and rate. Overlap is that with in-context learning; in its "
                "own row, of two orders of the demonstrations with each other.",
            ),
            header=("", *(heading for _, heading in COLUMNS.values())),
            rows=rows,
        ),
        Section("What follows", header=("hypothesis", "", "verdict", "", "measured"), rows=results),
    ]
    table = {side: read["token_overlap"].get(side, {}) | read["accuracy"].get(side, {}) for side in sides}
    tables: dict[str, Any] = {}
    for measure, title in MEASURES.items():
        try:
            figure = along_descent(values, table, measure, title)
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{name} has no curve of {measure!r} along gradient descent: run compare again.") from None
        beside = f"report-{stem}-{measure}.csv"
        sections.append(Section(title, svg=figure.svg(), data_file=beside))
        tables[beside] = (HEADER, figure.rows())
    return Part(sections, tables)


def _interval(finding: dict[str, Any]) -> list[float | None]:
    return [finding.get(end) for end in ("value", "low", "high")]


def _cell(numbers: list[float | None] | None) -> str:
    known = [n for n in numbers or [] if n is not None]
    if len(known) == 3:
        return f"{known[0]:.3g} [{known[1]:.3g}, {known[2]:.3g}]"
    return f"{known[0]:.3g}" if known else ""
