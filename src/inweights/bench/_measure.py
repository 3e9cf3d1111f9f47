"""Timing of two implementations of one job, alternating in one process, so that noise affects both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """One comparison. `ours` and `rival` have the same `unit`; a ratio above 1 is in our favour.

    `beside` holds further measurements by name.
    """

    name: str
    ours: float
    rival: float
    unit: Literal["seconds", "bytes"]
    goal: float
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.rival / self.ours

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ours": self.ours,
            "rival": self.rival,
            "unit": self.unit,
            "ratio": self.ratio,
            "goal": self.goal,
            **self.beside,
        }


@dataclass(frozen=True)
class Result:
    """The result of a benchmark.

    - `headline`: the name of the main row.
    - `error`, `tolerance`: the largest difference between the outputs of the two sides, and the largest allowed one. A
      ratio of times is meaningless if the outputs disagree.
    - `setting`: a description of the setting.
    """

    setting: str
    headline: str
    rows: tuple[Row, ...]
    error: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        return self.error <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        head = next(row for row in self.rows if row.name == self.headline)
        return {
            "ours": head.ours,
            "rival": head.rival,
            "ratio": head.ratio,
            "headline": self.headline,
            "rows": [row.as_json() for row in self.rows],
            "setting": self.setting,
            "error": self.error,
            "tolerance": self.tolerance,
            "agrees": self.agrees,
        }


def race(ours: Callable[[], object], rival: Callable[[], object], *, rounds: int = 7) -> tuple[float, float]:
    """Median seconds of both functions, alternating for `rounds` rounds after two warm-up runs each.

    A fast function is repeated within its turn for about 20 ms, so that the clock can resolve it.
    """

    def seconds(job: Callable[[], object], times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            job()
        return (time.perf_counter() - start) / times

    jobs = (ours, rival)
    repeats = [max(1, round(0.02 / max(seconds(job, 2), 1e-6))) for job in jobs]
    taken: tuple[list[float], list[float]] = ([], [])
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for job, times, record in zip(jobs, repeats, taken, strict=True):
                record.append(seconds(job, times))
    finally:
        if collecting:
            gc.enable()
    return statistics.median(taken[0]), statistics.median(taken[1])
