"""Files that are written atomically: under a temporary name, then renamed."""

from __future__ import annotations

import csv
import io
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from inweights._errors import InputError


def beside(path: Path) -> Path:
    """A temporary name beside `path`, for a file that is then renamed to it.

    Files that the caller creates there have the permissions of the user's umask, unlike those of `tempfile`.
    """
    return path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")


def write_atomic(path: Path, content: bytes | str) -> Path:
    """Writes `content` so that a reader, or a crash at any moment, sees the old file or the new one.

    The folder is created if necessary.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    half = beside(path)
    try:
        with half.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
    return path


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """The table behind a figure."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return write_atomic(path, text.getvalue())


def folder_for(argument: str, path: Path) -> Path:
    """The folder `path`, created if necessary, and checked to be writable before any work is done."""
    with _named(argument, path):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    return path


def require_writable(argument: str, path: Path) -> None:
    """As `folder_for`, but nothing is made: a run that is refused afterwards leaves no empty folder behind."""
    with _named(argument, path):
        there = next(p for p in (path, *path.absolute().parents) if p.exists())
        with tempfile.TemporaryFile(dir=there):
            pass


@contextmanager
def _named(argument: str, path: Path) -> Iterator[None]:
    """Turns an error of the system into a sentence about the argument."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{argument} is {str(path)!r}, which cannot be written to ({error.strerror}): name another folder."
        ) from None


LOCK = ".lock"


@contextmanager
def locked(
    folder: Path,
    *,
    patience: float = 0.0,
    waiting: Callable[[], None] = lambda: None,
    otherwise: str = "wait for it, or name another folder",
) -> Iterator[None]:
    """While active, other processes that call this wait for the folder.

    Where another process holds it, waits for `patience` seconds, calling `waiting` now and then, and then raises
    `InputError`. The lock is the system's: it ends with its process, however that ends, so that no file of a dead
    process can keep it.
    """
    path, end = folder / LOCK, time.monotonic() + patience
    who = _owner(path)  # before the first try, which empties the file
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            if time.monotonic() >= end:
                raise InputError(f"Another process{who} is at work in {str(folder)!r}: {otherwise}.") from None
        waiting()
        time.sleep(0.1)
    try:
        with suppress(OSError):  # a full disk: the lock is there all the same
            path.write_text(f"{os.getpid()}\n")
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def _owner(path: Path) -> str:
    """The process that a lock file names, in brackets; empty if it names none."""
    try:
        process = path.read_text().strip()
    except (OSError, ValueError):  # it is not there, or no text
        return ""
    return f" (process {process})" if process.isdecimal() else ""
