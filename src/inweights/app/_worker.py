"""The worker: a process of its own that holds the models and does one job at a time; JSON lines in and out.

It ends with the server, however that ends: its input is then closed.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from inweights._errors import InputError, out_of_memory
from inweights.app._limits import KINDS, Request


class Cancelled(Exception):  # noqa: N818  (requested, and no error)
    """The user has cancelled this job."""


class Tell:
    """The events of a job for the page: news, progress; both end the job if it was cancelled."""

    def __init__(self, write: Callable[[dict[str, Any]], None], cancelled: threading.Event) -> None:
        self._write, self._cancelled, self._last, self._stage = write, cancelled, 0.0, ""

    def news(self, what: str, **values: Any) -> None:
        """An event that the page shows as it comes."""
        self._check()
        self._write({"news": {"what": what, **values}})

    def progress(self, stage: str, done: int = 0, total: int = 0) -> None:
        """How far a stage is; at most ten times a second."""
        self._check()
        now = time.monotonic()
        if stage != self._stage or done == total or now - self._last >= 0.1:
            self._stage, self._last = stage, now
            self._write({"progress": {"stage": stage, "done": done, "total": total}})

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled


class Desk:
    """The state kept between jobs: the folder, the loaded models, and the last result of each kind."""

    HELD = 2
    """Models in memory at the same time."""

    def __init__(self, root: Path, models: tuple[str, ...]) -> None:
        self.root, self.allowed = root, models
        self._loaded: dict[tuple[str, str], Any] = {}
        self.last: dict[str, Any] = {}
        self.id = ""  # of the job

    def model(self, name: str, dtype: str) -> Any:
        """A model of the list, loaded once."""
        if name not in self.allowed:
            raise InputError(f"The model {name!r} is not one of those that the server was started with.")
        if (name, dtype) not in self._loaded:
            from inweights.models import load

            while len(self._loaded) >= self.HELD:
                self._loaded.pop(next(iter(self._loaded)))
                self.last.clear()
            self._loaded[name, dtype] = load(name, dtype=dtype)
        return self._loaded[name, dtype]


def job_of(kind: str) -> Callable[[Any, Tell, Desk], dict[str, Any]]:
    """The function that does a kind of job; its module, and torch with it, is imported only now."""
    if kind in ("prompt", "layer"):
        from inweights.app import _prompt

        return _prompt.prompt if kind == "prompt" else _prompt.layer
    if kind in ("fold", "chat"):
        from inweights.app import _fold

        return _fold.fold_job if kind == "fold" else _fold.chat
    if kind == "trajectory":
        from inweights.app._trajectory import trajectory_job

        return trajectory_job
    if kind == "rows":
        from inweights.app._rows import rows_job

        return rows_job
    from inweights.app._ledger import run_claim

    return run_claim


def done(kind: str, request: dict[str, Any], tell: Tell, desk: Desk) -> dict[str, Any]:
    """The outcome of a job: its `result`, or the reason for its failure, in one sentence."""
    try:
        checked: Request = KINDS[kind].model_validate(request)
        return {"state": "done", "result": job_of(kind)(checked, tell, desk)}
    except Cancelled:
        return {"state": "cancelled"}
    except InputError as error:
        return {"state": "failed", "error": str(error)}
    except Exception as error:
        if out_of_memory(error):
            return {"state": "failed", "error": "There is not enough memory for this: take a shorter text."}
        import traceback

        traceback.print_exc()
        return {"state": "failed", "error": f"Internal error of inweights ({type(error).__name__}): see the terminal."}


def finite(value: Any) -> Any:
    """The same with nothing in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main(settings: dict[str, Any], lines: TextIO, out: TextIO) -> None:
    """Does the jobs that come in, one by one, until the input ends."""
    work: queue.Queue[dict[str, Any]] = queue.Queue()
    # One for each job: a cancellation that comes before its job has begun must not be lost, nor end another one.
    cancelled: dict[str, threading.Event] = {}
    lock = threading.Lock()

    def write(message: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(finite(message), allow_nan=False) + "\n")
            out.flush()

    def listen() -> None:
        for line in lines:
            message = json.loads(line)
            event = cancelled.setdefault(message.get("cancel") or message["id"], threading.Event())
            if "cancel" in message:
                event.set()
            else:
                work.put(message)
        os._exit(0)  # the server is gone: the result is not needed

    threading.Thread(target=listen, daemon=True).start()
    desk = Desk(Path(settings["root"]), tuple(settings["models"]))
    write({"ready": True})
    while True:
        job = work.get()
        desk.id = job["id"]
        write(done(job["kind"], job["request"], Tell(write, cancelled[job["id"]]), desk))


if __name__ == "__main__":
    real = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the output of libraries must not be read as a message
    main(json.loads(sys.argv[1]), sys.stdin, real)
