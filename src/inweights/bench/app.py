"""The page: how long the proof of a context takes, and many clients at once on loopback; nothing but 429 is refused,
every accepted job finishes, and memory does not grow."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights.bench._measure import Result, Row

TOKEN = "bench-token-of-this-run"
OVER = ("done", "failed", "cancelled", "interrupted")
CONTEXT = (
    "You are a pirate captain. Always answer in rough pirate speech. Your ship is the Sea Wolf. You hate the royal "
    "navy and love old gold."
)
"""30 tokens of SmolLM2."""
DRAWN = 5.0
"""Seconds from the request to its map and proof, at most, once the model is loaded."""
GROWTH = 1.1
"""Memory at the end in terms of that after the first minute, at most."""
PAUSE = 0.25
"""Seconds that a client waits after each of its requests."""


@dataclass
class Counts:
    """The responses to the clients."""

    answers: Counter[int] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Client:
    """A connection to the server."""

    def __init__(self, port: int, counts: Counts) -> None:
        self.port, self.counts = port, counts
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of one request, counted."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        start = time.perf_counter()
        try:
            data = None if body is None else json.dumps(body)
            self.connection.request("GET" if body is None else "POST", path, data, headers)
            answer = self.connection.getresponse()
            status, value = answer.status, json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            self.connection.close()
            status, value = 0, {"error": f"{type(error).__name__}: {error}"}
        with self.counts.lock:
            self.counts.answers[status] += 1
            self.counts.seconds.append(time.perf_counter() - start)
            if status not in (200, 202, 429):
                self.counts.wrong.append(f"{status} {value}")
        return status, value


def run(seconds: float = 300.0, clients: int = 50, model: str = "smollm2") -> Result:
    """Runs the server in a process of its own and `clients` threads against it, for so many seconds; then waits for
    every job that was accepted."""
    if not Path("/proc/self/status").exists():
        raise InputError("The benchmark app reads memory from /proc, which this system does not have.")
    counts, memory = Counts(), []
    with tempfile.TemporaryDirectory() as folder:
        process, port = started(Path(folder), model)
        try:
            drawn = _drawn(Client(port, Counts()), model)
            end = time.monotonic() + seconds
            threads = [
                threading.Thread(target=_visits, args=(Client(port, counts), model, i, end)) for i in range(clients)
            ]
            for thread in threads:
                thread.start()
            begun = time.monotonic()
            while any(t.is_alive() for t in threads):
                memory.append((time.monotonic() - begun, resident(process.pid)))
                time.sleep(min(1.0, seconds / 20))
            lost = _unfinished(Client(port, counts), counts.accepted)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()
    return _result(counts, memory, lost, seconds, clients, drawn)


def _drawn(client: Client, model: str) -> float:
    """Seconds from a request to the map and the proof of 30 tokens in float32; of two requests the second."""
    request = {"model": model, "context": CONTEXT, "query": "Hello! My name is", "dtype": "float32", "new_tokens": 1}
    seconds = 0.0
    for _ in range(2):
        begun, seconds = time.perf_counter(), 0.0
        _, job = client.call("/api/jobs/prompt", request)
        while job["state"] not in OVER:
            _, job = client.call(f"/api/jobs/{job['id']}?version={job['version']}&wait=8")
            if not seconds and any(n["what"] == "proof" for n in job["news"]):
                seconds = time.perf_counter() - begun
        if job["state"] != "done":
            raise InputError(f"The model cannot be measured: {job['error']}")
    client.connection.close()
    return seconds


def _result(
    counts: Counts, memory: list[tuple[float, int]], lost: list[str], seconds: float, clients: int, drawn: float
) -> Result:
    warm = min(60.0, seconds / 2)
    early = max([b for t, b in memory if t <= warm] or [memory[0][1]])
    late = statistics.median([b for t, b in memory if t > 0.8 * seconds] or [memory[-1][1]])
    slow = statistics.quantiles(counts.seconds, n=20)[-1]
    beside = {
        "accepted": len(counts.accepted), "unfinished": len(lost), "refused_429": counts.answers[429],
        "requests": sum(counts.answers.values()), "errors": len(counts.wrong), "first_error": (counts.wrong or [""])[0],
    }  # fmt: skip
    return Result(
        setting=f"{clients} clients for {seconds:g} s on loopback; memory of server and worker, rival: after "
        f"{warm:g} s; 95% of answers within, rival: one second; "
        "map and proof of 30 tokens in float32 before, rival: five seconds",
        headline="memory",
        rows=(
            Row("memory", late, early, "bytes", goal=1 / GROWTH, beside=beside),
            Row("answer", slow, 1.0, "seconds", goal=1),
            Row("drawn", drawn, DRAWN, "seconds", goal=1),
        ),
        error=float(len(lost) + len(counts.wrong)),
        tolerance=0.0,
    )


def started(folder: Path, model: str) -> tuple[subprocess.Popen[str], int]:
    """The server as a process of its own, and its port."""
    command = [sys.executable, "-m", "inweights", "app", "--no-browser", "--port", "0", "--token", TOKEN]
    process = subprocess.Popen([*command, "--model", model, "--folder", str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if "http://" not in line:
        raise InputError("The server did not start: run `inweights app` to see why.")
    return process, int(line.partition("127.0.0.1:")[2].partition("/")[0])


def _visits(client: Client, model: str, number: int, end: float) -> None:
    """One client: reads the state, asks for a small job now and then, and follows it."""
    turn = 0
    while time.monotonic() < end:
        client.call("/api/state")
        status, job = client.call(
            "/api/jobs/prompt",
            {"model": model, "context": f"My name is Bob {number}.", "query": " I am", "new_tokens": 1 + turn % 3},
        )
        turn += 1
        if status == 202:
            with client.counts.lock:
                client.counts.accepted.append(job["id"])
            while time.monotonic() < end:
                status, job = client.call(f"/api/jobs/{job['id']}?version={job.get('version', -1)}&wait=2")
                if status != 200 or job["state"] in OVER:
                    break
        time.sleep(PAUSE)
    client.connection.close()


def _unfinished(client: Client, ids: list[str], patience: float = 120.0) -> list[str]:
    """Accepted jobs that did not end well: those that the server still remembers must be done."""
    end, waiting, bad = time.monotonic() + patience, list(ids), []
    while waiting and time.monotonic() < end:
        _, state = client.call("/api/state")
        states = {j["id"]: j["state"] for j in state["jobs"]}
        bad += [i for i in waiting if states.get(i) in OVER[1:]]
        waiting = [i for i in waiting if i in states and states[i] not in OVER]
        time.sleep(0.2)
    client.connection.close()
    return [*bad, *waiting]


def resident(pid: int) -> int:
    """Bytes in memory of a process and of those that it started."""
    total = 0
    for each in [pid, *_children(pid)]:
        try:
            status = Path(f"/proc/{each}/statm").read_text().split()
        except OSError:  # it has just ended
            continue
        total += int(status[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def _children(pid: int) -> list[int]:
    direct = [int(c) for p in Path(f"/proc/{pid}/task").glob("*/children") for c in p.read_text().split()]
    return [*direct, *(g for c in direct for g in _children(c))]
