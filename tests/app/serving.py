"""A server as a user starts it, and plain requests to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import psutil

TOKEN = "a-token-for-all-tests"
PATIENCE = 600
"""Seconds after which something that must happen has not: no test is about speed unless it says so, and the machine may
be many times slower than usual."""
OVER = ("done", "failed", "cancelled", "interrupted")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """`inweights app` in a process of its own; can be killed and started again."""

    def __init__(self, model: str, root: Path, *more: str, port: int = 0) -> None:
        self.model, self.root, self.more, self.port = model, root, more, port
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "inweights", "app", "--no-browser", "--port", str(self.port)]
        command += ["--token", TOKEN, "--model", self.model, "--folder", str(self.root), *self.more]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        end = time.monotonic() + PATIENCE
        while True:  # it says where it is just before it listens
            try:
                self.ask("/api/state")
                return
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @contextmanager
    def paused(self) -> Iterator[Callable[[Callable[[], bool]], None]]:
        """The worker does nothing inside; the server answers. What this gives lets the worker go on, in short slices,
        until something holds: no work ends unseen, however slow the test or the browser is."""
        if not self.workers():  # it was ended with the last job: the next one starts another
            self.result(self.prompt())
        (worker,) = self.workers()
        worker.suspend()

        def until(holds: Callable[[], bool]) -> None:
            end = time.monotonic() + PATIENCE
            while not holds():
                assert time.monotonic() < end
                worker.resume()
                time.sleep(0.1)
                worker.suspend()

        try:
            yield until
        finally:
            with suppress(psutil.NoSuchProcess):
                worker.resume()

    def workers(self) -> list[psutil.Process]:
        """The worker, if it runs; there is never a second one."""
        children = psutil.Process(self.process.pid).children()
        return [p for p in children if "inweights.app._worker" in p.cmdline()]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, data: bytes | None = None, method: str = "", **headers: str) -> Answer:
        """One request; `headers` replace those that a client with the token sends, and `""` leaves one out."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}", **headers}
        connection.putrequest(method or ("GET" if data is None else "POST"), path, skip_host=True)
        for name, value in sent.items():
            if value:
                connection.putheader(name.replace("_", "-"), value)
        if data is not None and "Content_Length" not in headers:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        try:
            if data:
                connection.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent: the answer is there
        got = connection.getresponse()
        answer = Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        connection.close()
        return answer

    def post(self, path: str, value: Any, **headers: str) -> Answer:
        return self.ask(path, json.dumps(value).encode(), **headers)

    def prompt(self, **more: Any) -> Answer:
        return self.post("/api/jobs/prompt", self.request(**more))

    def request(self, **more: Any) -> dict[str, Any]:
        return {"model": self.model, "context": "My name is Bob.", "query": "Who", "new_tokens": 3, **more}

    def over(self, id: str) -> dict[str, Any]:
        """The job once it is over."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            view = self.ask(f"/api/jobs/{id}?wait=5&version=-1").json
            if view["state"] in OVER:
                return view
            time.sleep(0.05)
        raise AssertionError(f"{id} did not end: {view}")

    def result(self, answer: Answer) -> Any:
        assert answer.status == 202, answer
        view = self.over(answer.json["id"])
        assert view["state"] == "done", view
        return self.ask(f"/api/jobs/{view['id']}/result").json
