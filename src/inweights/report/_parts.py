"""A part of the report: its sections, and the tables that its figures are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from inweights._draw import Bar, bars_size, draw_bars, svg
from inweights._errors import InputError
from inweights.report._page import Section

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""A header and rows."""
T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Sections of the page, and by file name the tables that are written beside it."""

    sections: list[Section]
    tables: dict[str, Table] = field(default_factory=dict)


def checked(kind: type[T], values: dict[str, Any], name: str) -> T:
    """The values of a file as a dataclass or `TypedDict`; what is wrong with them is one sentence each."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc']))!r}: {e['msg']}" for e in error.errors()[:5]]
        raise InputError(f"{name} is not what the command wrote ({'; '.join(wrong)}): run the command again.") from None


def bars_table(bars: Sequence[Bar]) -> Table:
    """The table behind a figure of bars."""
    rows = [(b.label, b.value, "" if b.low is None else b.low, "" if b.high is None else b.high) for b in bars]
    return ("", "value", "low", "high"), rows


def bars_svg(bars: Sequence[Bar], x_label: str, label: str, *, log: bool = False) -> str:
    """A figure of bars for the page."""
    return svg(lambda axes: draw_bars(axes, bars, x_label, log=log), bars_size(bars), label)
