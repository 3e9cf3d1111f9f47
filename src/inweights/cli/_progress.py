"""Progress of long work on standard error: bars on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY = 15.0
"""Seconds between two lines of one stage in a log."""


class Lines:
    """Progress as lines of text: one when a stage begins, and one every `EVERY` seconds while it lasts.

    **Arguments:**

    - `write`: takes each line.
    - `clock`: seconds, from any start.
    """

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self.write, self.clock = write, clock
        self.stage, self.begun, self.last = "", 0.0, 0.0
        self.done: float = 0
        self.total: float | None = None

    def add_task(self, description: str, *, total: float | None = None, note: str = "") -> Any:
        self.total = total
        self.update(0, description=description, completed=0)
        return 0

    def update(
        self,
        task: int,
        *,
        total: float | None = None,
        completed: float | None = None,
        advance: float = 0,
        description: str = "",
        note: str = "",
        visible: bool = True,
    ) -> None:
        now = self.clock()
        self.total = self.total if total is None else total
        self.done = self.done + advance if completed is None else completed
        if description not in ("", self.stage):
            self.stage, self.begun, self.last = description, now, now
            self.write(f"{self.stage} …\n")
        self.tick()

    def tick(self) -> None:
        """Writes a line if the last one is `EVERY` seconds ago: also in the middle of a step that takes minutes."""
        now = self.clock()
        if self.stage and now - self.last >= EVERY:
            self.last = now
            self.write(f"{self.stage}: {self._far(now - self.begun)}\n")

    def stop(self) -> None:
        """Lines need no clean-up."""

    def _far(self, seconds: float) -> str:
        """How far the stage is, and how long it takes at this rate."""
        if not self.total or not self.done:
            return f"{clock_time(seconds)} so far"
        left = seconds * (self.total - self.done) / self.done
        return f"{self.done:g} of {self.total:g}, {clock_time(left)} left"


def clock_time(seconds: float) -> str:
    """`"2:05"` for 125 seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


@contextmanager
def _ticking(lines: Lines) -> Iterator[Lines]:
    """A thread that checks once a second whether a line is due."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(1.0):
            lines.tick()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join()


@contextmanager
def progress() -> Iterator[Progress | Lines]:
    """Bars with the time left on a terminal; lines otherwise, as a log keeps them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        with _ticking(Lines(sys.stderr.write)) as lines:
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield bars


def stages(bars: Progress | Lines, first: str) -> Callable[[str, int, int], None]:
    """A function of stage, steps done and all steps, that shows each stage as a bar, or as lines, of its own."""
    state: dict[str, Any] = {"stage": first, "task": bars.add_task(first, total=None, note="")}

    def after(stage: str, done: int, total: int) -> None:
        if stage != state["stage"]:  # a new one, so that its time left is not reckoned from the one before
            bars.update(state["task"], visible=False)
            state["stage"], state["task"] = stage, bars.add_task(stage, total=total or None, note="")
        bars.update(state["task"], description=stage, completed=done, total=total or None)

    return after
