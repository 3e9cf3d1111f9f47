"""The engine `ray` on a cluster of two nodes: a node that dies, work that crashes, and addresses where no Ray is."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import redirect_stderr
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from inweights import InputError
from inweights.engines import _ray, _work, choose

# What is of __main__ travels to the workers as it is, so that they have the same.
SCOPE: dict[str, Any] = {"__name__": "__main__"}
exec(
    """
class Work:
    def __init__(self, key, folder):
        self.key, self.folder = key, folder

    def do(self, folder, beat):
        import os
        if self.key == "wrong":
            raise OSError(f"in {folder}")
        if self.key == "dies once":
            died = self.folder.parent / "died"
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), 9)
        (folder / "made").write_text("by " + self.key)
        return "answer of " + self.key

    def failed(self, why):
        return "failed: " + why

def lacks(work):
    import nothing_of_this_name

def dies(work):
    import os
    os.kill(os.getpid(), 9)
""",
    SCOPE,
)


def works(home: Path, *keys: str) -> list[Any]:
    return [SCOPE["Work"](key, home / "works" / key) for key in keys]


def test_a_node_that_dies_costs_nothing_but_time(
    cluster: Any, doomed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, result = ["one", "two", "three"], []
    for answer in choose("ray", cluster.address)(works(tmp_path, *keys), None, cluster.address):
        result.append(answer)
        if len(result) == 1:
            sys.stdout.write("a verdict\n")
            doomed.kill()  # with work that was done and that nobody has heard of
    assert capsys.readouterr().out == "a verdict\n"  # what Ray has to say is said elsewhere
    assert doomed.done_again
    assert sorted(result) == sorted((key, f"answer of {key}") for key in keys)  # each once
    for key in keys:
        assert [(p.name, p.read_text()) for p in (tmp_path / "works" / key).iterdir()] == [("made", f"by {key}")]


def test_work_that_fails_or_crashes_has_an_answer(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*keys: str) -> dict[str, str]:
        return dict(choose("ray", cluster.address)(works(tmp_path, *keys), 1, cluster.address))

    for module in (_ray, _work):  # a worker of Ray takes seconds to start
        monkeypatch.setattr(module, "RETRIES", 1)
    (tmp_path / "works").mkdir()
    assert answers("wrong", "dies once") == {
        "wrong": f"failed: OSError: in {tmp_path / 'works' / 'wrong'}",  # not the folder that it had on its node
        "dies once": "answer of dies once",
    }
    assert (tmp_path / "works" / "died").exists()
    assert (tmp_path / "works" / "dies once" / "made").read_text() == "by dies once"
    for does, output in (
        ("lacks", "Ray could not run it: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("dies", "Its process died 2 times, last of WorkerCrashedError: it may need more memory than is available."),
    ):
        monkeypatch.setattr(_ray, "away", SCOPE[does])
        assert answers("one") == {"one": f"failed: {output}"}


def refused(out: Path, address: str | None) -> str:
    """The error message, in one sentence and in less time than Ray's own timeout."""
    start = time.monotonic()
    with pytest.raises(InputError) as error:
        list(choose("ray", address)(works(out, "one"), None, address))
    assert time.monotonic() - start < 8
    assert "\n" not in str(error.value)
    return str(error.value)


def test_addresses_without_ray_are_refused_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(_ray, "PATIENCE", 1.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # but it does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"--address is {address!r}, but nothing answers there" in refused(tmp_path, address)
        taken.listen()  # but never answers
        assert f"--address is {address!r}, but nothing answers there (timed out)" in refused(tmp_path, address)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server, redirect_stderr(StringIO()):
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert "is no Ray head" in refused(tmp_path, f"ray://127.0.0.1:{server.server_port}")
    for address in ("nowhere", "nowhere:", ":6379", "nowhere:port", "nowhere.invalid:99999999"):
        assert f"--address is {address!r}, but" in refused(tmp_path, address)


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused(tmp_path, None) == "--engine ray needs Ray: install it with pip install 'inweights[sweep]'."
