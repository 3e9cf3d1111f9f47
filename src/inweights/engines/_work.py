"""The interface of engines: an engine takes pieces of work and returns their results, in any order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from inweights._errors import InputError

RETRIES = 3

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Beat = Callable[[], None]
"""Called repeatedly during long work; it ends the process if the caller no longer exists."""


def no_beat() -> None:
    """The beat of work that cannot outlive its caller: done in the caller's process, or stopped by the engine."""


class Work(Protocol[T_co]):
    """A piece of work: any picklable object with these members.

    - `key`: its name, unique within a call. `folder`: the folder for its files.
    - `do`: does the work, with its files in the given folder, and returns the result: any picklable object but None.
    - `failed`: the result in case of failure, from a message that states the reason.
    """

    @property
    def key(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    def do(self, folder: Path, beat: Beat) -> T_co: ...

    def failed(self, why: str) -> T_co: ...


class Engine(Protocol):
    """A function that yields `(key, result)` once for each piece of work, even if its process dies; its files are in
    its folder by then. At most `jobs` pieces run at a time, if that is given."""

    def __call__(
        self, works: Sequence[Work[T]], jobs: int | None, address: str | None
    ) -> Generator[tuple[str, T], None, None]: ...


def attempt(work: Work[T], folder: Path, beat: Beat) -> T:
    """Does a piece of work in this process. An error becomes its result, so that other work is not affected."""
    try:
        return work.do(folder, beat)
    except InputError as error:
        why = str(error)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    return work.failed(why.replace(str(folder), str(work.folder)))  # the final folder of the files


def gave_up(how: str) -> str:
    """The error message for work that repeatedly ends its process."""
    return f"Its process died {RETRIES + 1} times, last {how}: it may need more memory than is available."
