"""The engine `local`: processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Generator
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from inweights.lab.sweep._cell import run
from inweights.lab.sweep._engine import RETRIES, Answer, Work, gave_up
from inweights.lab.training import Progress

# A forked process inherits the threads' locks of torch, but not the threads.
SPAWN = multiprocessing.get_context("spawn")


def local(works: list[Work], jobs: int | None, address: str | None) -> Generator[tuple[Work, Answer], None, None]:
    """Cells on as many processes as there are cores, or `jobs`. A cell whose process dies goes on in another."""
    waiting, deaths = deque(works), Counter[str]()
    workers: list[Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < (jobs or os.cpu_count() or 1):
                workers.append(Worker(waiting.popleft()))
            ready = wait([worker.connection for worker in workers])
            for worker in [w for w in workers if w.connection in ready]:
                work, answer = worker.work, worker.answer()
                if answer is None:
                    deaths[work.cell.key] += 1
                    if deaths[work.cell.key] <= RETRIES:
                        waiting.appendleft(work)
                    else:
                        answer = gave_up(f"with exit code {worker.process.exitcode}")
                if worker.process.is_alive() and waiting:
                    worker.give(waiting.popleft())
                else:
                    worker.stop()
                    workers.remove(worker)
                if answer is not None:
                    yield work, answer
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process with work."""

    def __init__(self, work: Work) -> None:
        self.connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.give(work)

    def give(self, work: Work) -> None:
        self.work = work
        with suppress(OSError):  # it is dead: so its answer will say
            self.connection.send(work)

    def answer(self) -> Answer | None:
        """Its answer, or None if it died."""
        try:
            answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return None
        return answer

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def serve(connection: Connection) -> None:
    """What a worker does: work until there is no more, or nobody is left to do it for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which then stops its workers
    parent = multiprocessing.parent_process()

    def after(_: Progress) -> None:
        if parent is not None and not parent.is_alive():
            sys.exit()

    with suppress(EOFError, OSError):
        while True:
            work: Work = connection.recv()
            connection.send(Answer(run(work.cell, work.folder, work.prompts, after)))
