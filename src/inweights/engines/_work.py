"""What an engine is: it takes pieces of work and gives their answers, in any order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from inweights._errors import InputError

RETRIES = 3

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Beat = Callable[[], None]
"""Called now and then by work that takes long; it does not return if nobody is left to work for."""


def no_beat() -> None:
    """The beat of work that is not left alone: done in the process that asked for it, or stopped by who gave it out."""


class Work(Protocol[T_co]):
    """A piece of work: anything that can be pickled and has these.

    - `key`: its name, which no other work of the same call has. `folder`: where its files belong.
    - `do`: does it, with its files in the given folder, and gives the answer: anything that can be pickled, but None.
    - `failed`: the answer when there is none, from the sentence that says why.
    """

    @property
    def key(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    def do(self, folder: Path, beat: Beat) -> T_co: ...

    def failed(self, why: str) -> T_co: ...


class Engine(Protocol):
    """Each piece of work is answered once, under its key, also if the process that had it dies; by then its files are
    in its folder. `jobs` at a time, if that is given."""

    def __call__(
        self, works: Sequence[Work[T]], jobs: int | None, address: str | None
    ) -> Generator[tuple[str, T], None, None]: ...


def attempt(work: Work[T], folder: Path, beat: Beat) -> T:
    """Does a piece of work in this process. What goes wrong is its answer: the others have nothing to do with it."""
    try:
        return work.do(folder, beat)
    except InputError as error:
        why = str(error)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    return work.failed(why.replace(str(folder), str(work.folder)))  # where the files will be


def gave_up(how: str) -> str:
    """Why there is no answer to work that no process survives."""
    return f"Its process died {RETRIES + 1} times, last {how}: it may need more memory than there is."
