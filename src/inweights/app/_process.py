"""`Process`: the worker from the side of the server: started when it is needed, and again when it has ended."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENT = {"OMP_WAIT_POLICY": "passive"}
"""Threads that wait for each other sleep: spinning ones took 60 s in place of 4 s beside other work."""


class Process:
    """The worker process, and its messages in the order in which they came."""

    def __init__(self, root: Path, models: Sequence[str]) -> None:
        self.settings = {"root": str(root), "models": list(models)}
        self._process: subprocess.Popen[str] | None = None
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process is not None and self.alive() else None

    def start(self) -> None:
        """Starts the process unless it runs."""
        if self.alive():
            return
        self._messages = queue.Queue()
        command = [sys.executable, "-m", "inweights.app._worker", json.dumps(self.settings)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=PATIENT | os.environ
        )
        threading.Thread(target=self._listen, args=(self._process, self._messages), daemon=True).start()

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message; what was not read of an earlier process is dropped with it."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it has just ended: a caller that waits for it is notified
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message, or nothing after so many seconds."""
        try:
            return self._messages.get(timeout=seconds)
        except queue.Empty:
            return None

    def kill(self) -> None:
        """Ends the process now."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    if stream is not None:
                        stream.close()

    @staticmethod
    def _listen(process: subprocess.Popen[str], messages: queue.Queue[dict[str, Any]]) -> None:
        assert process.stdout is not None
        with suppress(ValueError, OSError):  # closed while it was read
            for line in process.stdout:
                messages.put(json.loads(line))
