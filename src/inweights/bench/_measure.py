"""How two ways of doing one job are timed: in one process, taking turns, so that noise hits both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """One comparison. `ours` and `rival` are in one `unit`; a ratio above 1 is in our favour.

    `beside` is what else was measured, by name.
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
    """What a benchmark found.

    - `headline`: the name of the row that stands for the whole.
    - `error`, `tolerance`: the largest difference between the two sides' answers, and what is allowed. A
      ratio between answers that disagree means nothing.
    - `setting`: what was run, in words.
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
    """Median seconds of both, alternating for `rounds` rounds after two runs each to warm up.

    A quick side is repeated within its turn until that lasts about 20 ms, so that the clock can see it.
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
