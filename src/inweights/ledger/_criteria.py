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


SCALES = ("", "log", "excess")


@dataclass(frozen=True)
class Criterion:
    """How one quantity is judged.

    - `each`: True: every number is judged, so the worst one decides. False: the interval of the mean is judged.
    - `controlled`: whether the quantity has a negative control.
    - `control`: the bound that the negative control must meet; None: it must miss `bound`.
    - `rival`: whether the quantity is also measured under a rival explanation. If that does not miss `bound`, the
      sentence may hold but is no evidence for its explanation.
    - `range`: the possible values of the quantity, ends included, such as −1 to 1 for a cosine: intervals are clipped
      to it. Bounds lie inside, so that no verdict depends on the clipping.
    - `scale`: "log" for a ratio, "excess" for a ratio minus 1: its mean is that of logarithms.
    - `corrected`: whether it measures the corrected form of the sentence. If the sentence fails and this holds, the
      verdict is ERRATUM.
    """

    bound: Bound
    each: bool
    controlled: bool = True
    control: Bound | None = None
    range: Bound | None = None
    rival: bool = False
    scale: str = ""
    corrected: bool = False

    def __post_init__(self) -> None:
        edges = [e for b in (self.bound, self.control) if b for e in (b.low, b.high) if math.isfinite(e)]
        if self.range and not all(self.range.low <= e <= self.range.high for e in edges):
            raise ValueError(f"a bound of {self} is outside of its range, {self.range}")
        if self.scale not in SCALES or (self.each and self.scale):
            raise ValueError(f"the scale of {self} is {self.scale!r}: a mean may have one of {SCALES[1:]}")

    @property
    def equivalence(self) -> bool:
        """Whether it is an equivalence test: the mean has to lie between two bounds."""
        return not self.each and math.isfinite(self.bound.low) and math.isfinite(self.bound.high)

    def __str__(self) -> str:
        kind = "each" if self.each else "geometric mean" if self.scale else "mean"
        parts = [f"{kind} {self.bound}"]
        parts += [f"control {self.control}"] if self.control else []
        parts += ["rival"] if self.rival else []
        return ", ".join([*parts, *(["corrected form"] if self.corrected else [])])


@dataclass(frozen=True)
class Criteria:
    """The criteria of all quantities of a claim, the number of trials, and the seed of the first one."""

    quantities: dict[str, Criterion]
    seeds: int = SEEDS
    first: int = 0

    @property
    def trials(self) -> range:
        """The seeds of the trials."""
        return range(self.first, self.first + self.seeds)


@cache
def criteria_file(folder: Path) -> dict[str, Any]:
    """The content of `criteria.toml` in the folder of a paper."""
    return read_toml(folder / "criteria.toml", "The file", limit=CONFIG_LIMIT)


def criteria() -> dict[str, Criteria]:
    """The criteria of all loaded claims, by id; claims without criteria are left out."""
    files = {c.id: criteria_file(c.paper.folder) for c in CLAIMS.values()}
    return {id: _criteria(id, file[id]) for id, file in files.items() if id in file}


def _criteria(id: str, values: dict[str, Any]) -> Criteria:
    quantities = {k: _criterion(v) for k, v in values.items() if k not in ("seeds", "first")}
    if not any(c.controlled for c in quantities.values()):
        raise ValueError(f"{id}: no quantity has a control")
    return Criteria(quantities, values.get("seeds", SEEDS), values.get("first", 0))


def _criterion(values: dict[str, Any]) -> Criterion:
    each = "each" in values
    control = values.get("control")
    return Criterion(
        Bound.of(values["each" if each else "mean"]),
        each,
        control != "none",
        None if control in (None, "none") else Bound.of(control),
        Bound.of(values["range"]) if "range" in values else None,
        bool(values.get("rival")),
        values.get("scale", ""),
        bool(values.get("corrected")),
    )
