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

# A forked process inherits the threads' locks of torch, but not the threads.
SPAWN = multiprocessing.get_context("spawn")


def local(works: Sequence[Work[T]], jobs: int | None, address: str | None) -> Generator[tuple[str, T], None, None]:
    """Work on as many processes as there are cores, or `jobs`. Work whose process dies is given to another."""
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
    """In place of an answer: why work did not reach a worker, or its answer did not leave it."""

    why: str


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that is started meanwhile never sees Ctrl-C, which would end it with a traceback of its imports; this
    one sees it afterwards."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # starting it lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker(Generic[T]):
    """A process with work."""

    def __init__(self, work: Work[T]) -> None:
        self.connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(theirs,), daemon=True)
        with _without_interrupts():
            self.process.start()
        theirs.close()
        self.give(work)

    def give(self, work: Work[T]) -> None:
        self.work = work
        with suppress(OSError):  # it is dead: so its answer will say
            self.connection.send(work)

    def answer(self) -> T | None:
        """Its answer, or None if it died."""
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
    """What a worker does: work until there is no more, or nobody is left to do it for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who gives out the work, and then stops the workers
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
            except Exception as error:  # what cannot be pickled, or found here
                connection.send(Undelivered(f"{type(error).__name__}: {error}"))
