"""The engine `ray`: a cluster of machines that need the same package, but no shared file system."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

from inweights._errors import InputError
from inweights._files import write_atomic
from inweights.engines._work import RETRIES, Work, attempt, gave_up, no_beat

T = TypeVar("T")

PATIENCE = 5.0
LOST = "WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "ObjectLostError"
"""What Ray raises when work was lost in every one of its attempts."""
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def ray(works: Sequence[Work[T]], jobs: int | None, address: str | None) -> Generator[tuple[str, T], None, None]:
    """Runs work on the nodes of a cluster, or of one that is started here. Work lost with its worker or its node is run
    again by Ray, `RETRIES` times."""
    with connected(jobs, address) as cluster:
        lost = tuple(getattr(cluster.exceptions, name) for name in LOST)
        task = cluster.remote(num_cpus=1, max_retries=RETRIES)(away)
        waiting = deque(works)
        given: dict[Any, Work[T]] = {}
        while waiting or given:
            while waiting and len(given) < (jobs or len(works)):
                work = waiting.popleft()
                given[task.remote(work)] = work
            (done,), _ = cluster.wait(list(given))
            work = given.pop(done)
            try:
                answer, files = cluster.get(done)
            except lost as error:
                answer, files = work.failed(gave_up(f"of {type(error).__name__}")), {}
            except cluster.exceptions.RayError as error:  # e.g. a node without the package
                why = f"Ray could not run it: {str(error).strip().splitlines()[-1]}"
                answer, files = work.failed(why), {}
            work.folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_atomic(work.folder / name, content)
            yield work.key, answer


def away(work: Work[T]) -> tuple[T, dict[str, bytes]]:
    """Does work in a temporary folder of a node; returns the result and the files, by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        answer = attempt(work, folder, no_beat)
        return answer, {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@contextmanager
def connected(jobs: int | None, address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster. Its messages go to standard error: standard output belongs to the command."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics are sent
    try:
        module: Any = importlib.import_module("ray")
    except ModuleNotFoundError:
        raise InputError("--engine ray needs Ray: install it with pip install 'inweights[sweep]'.") from None
    if address is not None and address != "auto":
        knock(address)
    # Without an address, the environment variable is ignored too: "local" starts a cluster.
    here: dict[str, Any] = {"num_cpus": jobs or os.cpu_count(), "include_dashboard": False} if address is None else {}
    with redirect_stdout(sys.stderr):
        try:
            module.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **here)
        except (ConnectionError, RuntimeError, ValueError) as error:
            what = f"--address is {address!r}, but Ray cannot connect to it" if address else "Ray cannot start here"
            raise InputError(f"{what}: {str(error).partition(chr(10))[0]}") from None
    mine: Any = Mine()
    with redirect_stdout(mine):
        try:
            yield module
        finally:
            with redirect_stdout(sys.stderr):
                module.shutdown()


class Mine:
    """Standard output for the thread that creates this object, and standard error for all other threads: those of Ray,
    which may print messages at any time."""

    def __init__(self) -> None:
        self.thread, self.out = threading.get_ident(), sys.stdout

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out if threading.get_ident() == self.thread else sys.stderr, name)


def knock(address: str) -> None:
    """Raises an error if no Ray head answers at an address. Ray itself would retry for minutes.

    Ray's servers use HTTP/2, where both sides begin with a settings frame.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        raise InputError(f"--address is {address!r}, but must be HOST:PORT of a Ray head, or auto.")
    try:
        with socket.create_connection((host, int(port)), PATIENCE) as line:
            line.settimeout(PATIENCE)
            line.sendall(HELLO)
            answers = line.recv(9)[3:4] == b"\x04"
    except (OSError, OverflowError) as error:
        raise InputError(f"--address is {address!r}, but nothing answers there ({error}).") from None
    if not answers:
        raise InputError(f"--address is {address!r}, but what answers there is no Ray head: its port is often 6379.")
