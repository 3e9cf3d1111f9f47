"""The engine `local`: processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from inweights.engines._work import RETRIES, Work, attempt, gave_up

T = TypeVar("T")

# A forked process would inherit the locks of torch's threads, but not the threads.
SPAWN = multiprocessing.get_context("spawn")


def local(works: Sequence[Work[T]], jobs: int | None, address: str | None) -> Generator[tuple[str, T], None, None]:
    """Runs work in as many processes as there are cores, or `jobs`. If a process dies, its work is run in another."""
    waiting, deaths = deque(works), Counter[str]()
    workers: list[Worker[T]] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < (jobs or os.cpu_count() or 1):
                workers.append(Worker(waiting.popleft()))
            ready = wait([worker.connection for worker in workers])
            for worker in [w for w in workers if w.connection in ready]:
                work, answer = worker.work, worker.answer()
                if answer is None:
                    deaths[work.key] += 1
                    if deaths[work.key] <= RETRIES:
                        waiting.appendleft(work)
                    else:
                        answer = work.failed(gave_up(f"with exit code {worker.process.exitcode}"))
                if worker.process.is_alive() and waiting:
                    worker.give(waiting.popleft())
                else:
                    worker.stop()
                    workers.remove(worker)
                if answer is not None:
                    yield work.key, answer
    finally:
        for worker in workers:
            worker.stop()


@dataclass(frozen=True)
class Undelivered:
    """Sent in place of a result: why work could not be sent to a worker, or its result could not be sent back."""

    why: str


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in this context ignore Ctrl-C, which would end them with a traceback of their imports; this
    process handles it afterwards."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker(Generic[T]):
    """A worker process and its current work."""

    def __init__(self, work: Work[T]) -> None:
        self.connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(theirs,), daemon=True)
        with _without_interrupts():
            self.process.start()
        theirs.close()
        self.give(work)

    def give(self, work: Work[T]) -> None:
        self.work = work
        with suppress(OSError):  # the process is dead: `answer` returns None
            self.connection.send(work)

    def answer(self) -> T | None:
        """The result of its work, or None if the process died."""
        try:
            answer: T | Undelivered = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return None
        return self.work.failed(answer.why) if isinstance(answer, Undelivered) else answer

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def serve(connection: Connection) -> None:
    """The main loop of a worker: does work until the connection is closed or the parent process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and stops the workers
    parent = multiprocessing.parent_process()

    def beat() -> None:
        if parent is not None and not parent.is_alive():
            sys.exit()

    with suppress(EOFError, OSError):
        while True:
            try:
                work: Work[Any] = connection.recv()
                connection.send(attempt(work, work.folder, beat))
            except (EOFError, OSError):
                raise
            except Exception as error:  # cannot be pickled, or not importable here
                connection.send(Undelivered(f"{type(error).__name__}: {error}"))
