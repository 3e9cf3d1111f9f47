"""Files that are either whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
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
