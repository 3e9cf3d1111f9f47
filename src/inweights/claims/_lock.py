"""One process at a time in a folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY = 0.5  # seconds between two looks


@contextmanager
def locked(folder: Path, beat: Callable[[], None]) -> Iterator[None]:
    """Waits until nobody else is in here, then keeps others out. The lock is the system's, on a file beside the folder:
    it goes with its process, however that ends, and the file itself stays, since to remove it would be a race."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        if sys.platform != "win32":  # there, two at a time are on their own
            import fcntl

            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    beat()
                    time.sleep(EVERY)
        yield
