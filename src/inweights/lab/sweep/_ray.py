"""The engine `ray`: a cluster of machines, which need to share nothing but the package."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights.lab.sweep._cell import Result, run
from inweights.lab.sweep._engine import RETRIES, Answer, Work, gave_up

PATIENCE = 5.0
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def ray(works: list[Work], jobs: int | None, address: str | None) -> Generator[tuple[Work, Answer], None, None]:
    """Cells on the nodes of a cluster, or of one that is started here. Work lost with its node is given out again."""
    with connected(jobs, address) as cluster:
        lost = cluster.exceptions.NodeDiedError, cluster.exceptions.ObjectLostError
        crashed = cluster.exceptions.WorkerCrashedError, cluster.exceptions.OutOfMemoryError
        task = cluster.remote(num_cpus=1, max_retries=0)(away)
        waiting, deaths = deque(works), Counter[str]()
        given: dict[Any, Work] = {}
        while waiting or given:
            while waiting and len(given) < (jobs or len(works)):
                work = waiting.popleft()
                given[task.remote(work)] = work
            (done,), _ = cluster.wait(list(given))
            work = given.pop(done)
            try:
                answer: Answer = cluster.get(done)
            except lost:  # not the cell's fault, however often
                waiting.appendleft(work)
                continue
            except crashed as error:
                deaths[work.cell.key] += 1
                if deaths[work.cell.key] <= RETRIES:
                    waiting.appendleft(work)
                    continue
                answer = gave_up(f"of {type(error).__name__}")
            except cluster.exceptions.RayError as error:  # a node without the package, perhaps
                answer = Answer(Result(message=f"Ray could not run it: {str(error).strip().splitlines()[-1]}"))
            yield work, answer


def away(work: Work) -> Answer:
    """A cell trained where its folder may not be: in a passing one, whose files go back with the result."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = run(work.cell, folder, work.prompts)
        result = replace(result, message=result.message.replace(name, str(work.folder)))  # where the files will be
        return Answer(result, {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()})


@contextmanager
def connected(jobs: int | None, address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster. It likes to talk on standard output, which belongs to the command."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
    try:
        module: Any = importlib.import_module("ray")
    except ModuleNotFoundError:
        raise InputError("--engine ray needs Ray: install it with pip install 'inweights[sweep]'.") from None
    if address is not None and address != "auto":
        knock(address)
    # Without an address, one of the environment is not meant either: "local" starts a cluster.
    here: dict[str, Any] = {"num_cpus": jobs or os.cpu_count(), "include_dashboard": False} if address is None else {}
    with redirect_stdout(sys.stderr):
        try:
            module.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **here)
        except (ConnectionError, RuntimeError, ValueError) as error:
            what = f"--address is {address!r}, but Ray cannot connect to it" if address else "Ray cannot start here"
            raise InputError(f"{what}: {str(error).partition(chr(10))[0]}") from None
        try:
            yield module
        finally:
            module.shutdown()


def knock(address: str) -> None:
    """Refuses an address where no Ray answers. Ray itself would try for minutes.

    Its servers speak HTTP/2, which begins with a frame of settings from both sides.
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
