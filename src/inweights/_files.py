"""Files that are either whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from inweights._errors import InputError


def write_atomic(path: Path, content: bytes | str) -> Path:
    """Writes `content` so that a reader, or a crash at any moment, sees the old file or the new one."""
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
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
    """The folder `path`, made if need be, and checked to be writable before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(
            f"{argument} is {str(path)!r}, which cannot be written to ({error.strerror}): name another folder."
        ) from None
    return path


LOCK = ".lock"


@contextmanager
def locked(folder: Path, *, patience: float = 0.0, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Keeps other processes out of a folder for as long as this lasts; they must ask in the same way.

    Where another is in it, waits for `patience` seconds, calling `waiting` now and then, and then raises `InputError`.
    The file names the process, but the lock on it is the system's: it goes with its process, however that ends, so that
    nobody has to guess whether the owner of an old file is dead.
    """
    if sys.platform == "win32":  # there, two at a time are on their own
        yield
        return
    path, end = folder / LOCK, time.monotonic() + patience
    while (handle := _acquired(path)) is None:
        if time.monotonic() >= end:
            try:
                who = f" (process {path.read_text().strip()})"
            except (OSError, ValueError):  # it is gone, or no text
                who = ""
            raise InputError(
                f"Another process{who} is at work in {str(folder)!r}: wait for it, or name another folder."
            )
        waiting()
        time.sleep(0.1)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _acquired(path: Path) -> int | None:
    """The open file with the lock on it; None if another process has it."""
    import fcntl

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_ino == path.stat().st_ino:
                with suppress(OSError):  # a full disk: the lock is there all the same
                    os.truncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except FileNotFoundError:
            pass
        os.close(handle)  # its owner has removed it meanwhile: there is a new one, or none
