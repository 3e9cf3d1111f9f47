"""Criteria: the bounds that the measured quantities of a claim must meet; one file per paper, written before a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger._claim import CLAIMS

SEEDS = 5


@dataclass(frozen=True)
class Bound:
    """The open interval between `low` and `high`."""

    low: float
    high: float

    @classmethod
    def of(cls, text: str) -> Bound:
        """Parses "<x", ">x" or "a..b"."""
        if text.startswith("<"):
            return cls(-math.inf, float(text[1:]))
        if text.startswith(">"):
            return cls(float(text[1:]), math.inf)
        low, _, high = text.partition("..")
        return cls(float(low), float(high))

    def holds(self, low: float, high: float) -> bool:
        """Whether the whole interval lies inside the bound."""
        return self.low < low <= high < self.high

    def misses(self, low: float, high: float) -> bool:
        """Whether the whole interval lies outside the bound, on one side."""
        return high <= self.low or low >= self.high

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"< {self.high:g}"
        return f"> {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Criterion:
    """How one quantity is judged.

    - `each`: True: every number is judged, so the worst one decides. False: the interval of the mean is judged.
    - `controlled`: whether the quantity has a control.
    - `control`: the bound that the control must meet; None: the control must miss `bound`.
    - `range`: the possible values of the quantity, ends included, such as −1 to 1 for a cosine: intervals are clipped
      to it. Bounds lie inside, so that no verdict depends on the clipping.
    """

    bound: Bound
    each: bool
    controlled: bool = True
    control: Bound | None = None
    range: Bound | None = None

    def __post_init__(self) -> None:
        edges = [e for b in (self.bound, self.control) if b for e in (b.low, b.high) if math.isfinite(e)]
        if self.range and not all(self.range.low <= e <= self.range.high for e in edges):
            raise ValueError(f"a bound of {self} is outside of its range, {self.range}")

    def __str__(self) -> str:
        return f"{'each' if self.each else 'mean'} {self.bound}" + (f", control {self.control}" if self.control else "")


@dataclass(frozen=True)
class Criteria:
    """The criteria of all quantities of a claim, and the number of trials."""

    quantities: dict[str, Criterion]
    seeds: int = SEEDS


@dataclass(frozen=True)
class Change:
    """A change of a criterion, or of its quantity, after it was written: the reason, and the results seen before."""

    claim: str
    date: str
    was: str
    now: str
    reason: str
    seen: str


@cache
def criteria_file(folder: Path) -> dict[str, Any]:
    """The content of `criteria.toml` in the folder of a paper."""
    return read_toml(folder / "criteria.toml", "The file", limit=CONFIG_LIMIT)


def criteria() -> dict[str, Criteria]:
    """The criteria of all loaded claims, by id; claims without criteria are left out."""
    files = {c.id: criteria_file(c.paper.folder) for c in CLAIMS.values()}
    return {id: _criteria(id, file[id]) for id, file in files.items() if id in file}


def changes() -> list[Change]:
    """The changes of criteria, oldest first, of all papers with loaded claims."""
    folders = dict.fromkeys(c.paper.folder for c in CLAIMS.values())
    made = [Change(**c) for folder in folders for c in criteria_file(folder).get("change", [])]
    return sorted(made, key=lambda change: (change.date, change.claim))


def _criteria(id: str, values: dict[str, Any]) -> Criteria:
    quantities = {k: _criterion(v) for k, v in values.items() if k != "seeds"}
    if not any(c.controlled for c in quantities.values()):
        raise ValueError(f"{id}: no quantity has a control")
    return Criteria(quantities, values.get("seeds", SEEDS))


def _criterion(values: dict[str, str]) -> Criterion:
    each = "each" in values
    control = values.get("control")
    return Criterion(
        Bound.of(values["each" if each else "mean"]),
        each,
        control != "none",
        None if control in (None, "none") else Bound.of(control),
        Bound.of(values["range"]) if "range" in values else None,
    )
