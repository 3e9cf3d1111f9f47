"""Jobs: one worker, a bounded queue, state on disk; a restart of the server resumes folds and reports the rest."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from inweights._files import write_atomic
from inweights.app._limits import KEPT, QUEUE, SECONDS
from inweights.app._process import Process

OVER = ("done", "failed", "cancelled", "interrupted")
NEWS = 2000
"""Events of a job that are kept for a page that asks late."""

RECENT = 8
"""Jobs that are over and keep their events."""


class FullError(Exception):
    """The queue takes no more."""


@dataclass
class Job:
    """One piece of work, as the page sees it and as it is on disk.

    - `state`: `queued`, `running`, or one of `OVER`.
    - `resumed`: the server was stopped during it, and it was resumed.
    - `stages`: those that are over, each with the seconds that it took.
    - `version`: grows with every change.
    """

    id: str
    kind: str
    request: dict[str, Any]
    state: str = "queued"
    created: float = field(default_factory=time.time)
    ended: float = 0.0
    error: str = ""
    resumed: bool = False
    progress: dict[str, Any] = field(default_factory=dict)
    stages: list[tuple[str, float]] = field(default_factory=list)
    news: list[dict[str, Any]] = field(default_factory=list, repr=False)
    version: int = 0

    def view(self, since: int = 0) -> dict[str, Any]:
        """The job without its request; of the events those from `since` on."""
        parts = {k: v for k, v in asdict(self).items() if k not in ("request", "news")}
        if "begun" in self.progress:
            parts["progress"]["spent"] = time.time() - self.progress["begun"]
        return parts | {"news": self.news[since:], "next": len(self.news)}


class Jobs:
    """All jobs under one folder; a thread hands them to the worker, one at a time."""

    def __init__(self, root: Path, process: Process) -> None:
        self.folder, self.process = root / "jobs", process
        self.folder.mkdir(parents=True, exist_ok=True)
        self.all: dict[str, Job] = {}
        self.waiting: deque[Job] = deque()
        self.current: Job | None = None
        self._wake, self._lock, self._stop = threading.Event(), threading.RLock(), False
        self._cancel_at: float = 0.0
        self._read()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begins to work."""
        self._thread.start()

    def close(self) -> None:
        """Stops; what is running stays on disk as it is, and is resumed or reported at the next start."""
        self._stop = True
        self._wake.set()
        self.process.kill()
        self._thread.join(5)

    def submit(self, kind: str, request: dict[str, Any]) -> Job:
        """A new job at the end of the queue; `FullError` if that is too long."""
        with self._lock:
            if len(self.waiting) >= QUEUE:
                raise FullError
            job = Job(time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(4), kind, request)
            self.all[job.id] = job
            self._write(job)
            self.waiting.append(job)
            self._forget()
        self._wake.set()
        return job

    def cancel(self, id: str) -> None:
        """Ends a job: at once if it waits, else at its next step, or within seconds by ending the worker."""
        with self._lock:
            job = self.all[id]
            if job in self.waiting:
                self.waiting.remove(job)
                self._change(job, state="cancelled", ended=time.time())
            elif job is self.current and not self._cancel_at:
                self._cancel_at = time.monotonic()
                self.process.send({"cancel": job.id})

    def result(self, id: str) -> bytes | None:
        """The result of a job as JSON, if it has one."""
        path = self.folder / id / "result.json"
        return path.read_bytes() if id in self.all and path.is_file() else None

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop:
            with self._lock:
                job = self.current = self.waiting.popleft() if self.waiting else None
                self._cancel_at = 0.0
                if job:
                    self._change(job, state="running")
            if job is None:
                self._wake.wait(1.0)
                self._wake.clear()
                continue
            self._do(job)
            self.current = None

    def _do(self, job: Job) -> None:
        """Gives a job to the worker and stores its messages, until it is over."""
        self.process.send({"kind": job.kind, "request": job.request, "id": job.id})
        end, stage, begun = time.monotonic() + SECONDS[job.kind], "", time.time()
        while not self._stop:
            message, now = self.process.receive(0.2), time.monotonic()
            if message is not None and "state" in message:
                if message["state"] == "done":
                    write_atomic(self.folder / job.id / "result.json", json.dumps(message["result"]))
                return self._over(job, message["state"], message.get("error", ""))
            if now > end:
                self.process.kill()
                return self._over(job, "failed", f"It took longer than the {SECONDS[job.kind]} s that are allowed.")
            if self._cancel_at and now > self._cancel_at + 3:
                self.process.kill()
                return self._over(job, "cancelled")
            if message is None:
                if not self.process.alive() and not self._stop:
                    return self._over(job, "failed", "The worker ended without an answer; perhaps memory ran out.")
            elif "progress" in message:
                p = message["progress"]
                clock = time.time()
                if p["stage"] != stage:
                    if stage:
                        job.stages.append((stage, clock - begun))
                    stage, begun = p["stage"], clock
                spent = clock - begun
                left = spent * (p["total"] - p["done"]) / p["done"] if p["done"] and p["total"] else None
                self._change(job, progress=p | {"left": left, "begun": begun}, write=False)
            elif "news" in message:
                if len(job.news) < NEWS:
                    job.news.append(message["news"])
                self._change(job, write=False)
        return None

    def _over(self, job: Job, state: str, error: str = "") -> None:
        self._change(job, state=state, error=error, ended=time.time())
        if state != "done":
            shutil.rmtree(unfinished(self.folder.parent, job.id), ignore_errors=True)

    def _change(self, job: Job, *, write: bool = True, **values: Any) -> None:
        with self._lock:
            for name, value in values.items():
                setattr(job, name, value)
            job.version += 1
            if write:
                self._write(job)

    # --- the disk -----------------------------------------------------------------------------------

    def _write(self, job: Job) -> None:
        parts = {k: v for k, v in asdict(job).items() if k not in ("news", "version", "progress", "stages")}
        write_atomic(self.folder / job.id / "job.json", json.dumps(parts))

    def _read(self) -> None:
        """The jobs of earlier starts: an interrupted fold resumes, others end with an error that states it."""
        for path in sorted(self.folder.glob("*/job.json")):
            with suppress(ValueError, TypeError):
                job = Job(**json.loads(path.read_bytes()))
                self.all[job.id] = job
                if job.state in OVER:
                    continue
                if job.kind == "fold":
                    self._change(job, state="queued", resumed=True)
                    self.waiting.append(job)
                else:
                    why = "The server was stopped before this was done: run it again."
                    self._change(job, state="interrupted", error=why, ended=time.time())
        self._forget()

    def _forget(self) -> None:
        """Drops the oldest jobs that are over; folds stay, as adapters belong to them."""
        old = [j for j in self.all.values() if j.state in OVER and not (j.kind == "fold" and j.state == "done")]
        for job in sorted(old, key=lambda j: j.created)[: max(0, len(old) - KEPT)]:
            del self.all[job.id]
            shutil.rmtree(self.folder / job.id, ignore_errors=True)
        over = sorted((j for j in self.all.values() if j.state in OVER), key=lambda j: j.ended)
        for job in over[:-RECENT]:
            job.news = []  # its result has everything


def unfinished(root: Path, id: str) -> Path:
    """Where a fold keeps its stages until it is done."""
    return root / "folds" / f"{id}.unfinished"
