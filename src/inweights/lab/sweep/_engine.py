"""What an engine is: it takes cells and gives answers, in any order."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inweights.lab.sweep._cell import Cell, Result

RETRIES = 3


@dataclass(frozen=True)
class Work:
    """A cell to train, the folder of its files, and how many prompts to measure on."""

    cell: Cell
    folder: Path
    prompts: int


@dataclass(frozen=True)
class Answer:
    """A result, and the files that were written where the folder of the cell cannot be reached."""

    result: Result
    files: dict[str, bytes] = field(default_factory=dict)


class Engine(Protocol):
    """Each piece of work is answered once, also if the process that had it dies; `jobs` at a time, if that is given."""

    def __call__(
        self, works: list[Work], jobs: int | None, address: str | None
    ) -> Generator[tuple[Work, Answer], None, None]: ...


def gave_up(how: str) -> Answer:
    """The answer to work that no process survives."""
    return Answer(
        Result(message=f"Its process died {RETRIES + 1} times, last {how}: it may need more memory than there is.")
    )
