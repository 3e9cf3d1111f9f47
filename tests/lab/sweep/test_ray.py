"""Sweeps on a cluster of two nodes, one of which dies."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import redirect_stderr
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from inweights import InputError
from inweights.engines import _ray, _work
from inweights.lab.sweep import cells, sweep
from inweights.lab.training import Recipe, load_trained

PROMPTS = 32

# A function of __main__ travels to the workers as it is, so that they have the same one.
SCOPE: dict[str, Any] = {"__name__": "__main__"}
exec(
    """
def lacks(work):
    import nothing_of_this_name

def dies(work):
    import os
    os.kill(os.getpid(), 9)
""",
    SCOPE,
)


def test_a_node_that_dies_costs_nothing_but_time(
    cluster: Any, doomed: Any, small: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = cells(small, ["seed=0,1,2"])

    def after(done: int) -> None:
        if done == 1:
            doomed.kill()  # with a trained cell that nobody has heard of

    found = sweep(wanted, tmp_path / "ray", engine="ray", address=cluster.address, prompts=PROMPTS, after=after)
    assert capsys.readouterr().out == ""  # what Ray has to say of it is not said on standard output
    assert doomed.done_again
    here = sweep(wanted, tmp_path / "local", jobs=1, prompts=PROMPTS)
    assert [replace(r, seconds=0.0) for r in found] == [replace(r, seconds=0.0) for r in here]
    # The trained models came back with the results.
    for cell in wanted:
        models = [
            load_trained(tmp_path / where / "cells" / cell.key / "model.safetensors")[0] for where in ("ray", "local")
        ]
        one, two = (m.state_dict() for m in models)
        assert all(one[n].equal(two[n]) for n in one)


def test_failing_and_dying_cells_are_one_sentence_each(
    cluster: Any, small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = sweep(
        cells(small, ["rate=1e6"]), tmp_path, engine="ray", address=cluster.address, prompts=PROMPTS, jobs=1
    )
    assert "train with a `rate` below 1e+06" in found.message
    assert str(tmp_path) in found.message  # not the folder that it had on its node
    for module in (_ray, _work):  # a worker of Ray takes seconds to start
        monkeypatch.setattr(module, "RETRIES", 1)
    for does, said in (
        ("lacks", "Ray could not run it: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("dies", "Its process died 2 times, last of WorkerCrashedError: it may need more memory than there is."),
    ):
        monkeypatch.setattr(_ray, "away", SCOPE[does])
        (found,) = sweep(cells(small, ["seed=7"]), tmp_path, engine="ray", address=cluster.address, prompts=PROMPTS)
        assert found.message == said


def refused(small: Recipe, out: Path, address: str | None) -> str:
    """The error message, in one sentence and in less time than Ray's own timeout."""
    start = time.monotonic()
    with pytest.raises(InputError) as error:
        sweep(cells(small, ["seed=0"]), out, engine="ray", address=address)
    assert time.monotonic() - start < 8
    assert "\n" not in str(error.value)
    return str(error.value)


def test_addresses_without_ray_are_refused_quickly(
    small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(_ray, "PATIENCE", 1.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # but it does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"--address is {address!r}, but nothing answers there" in refused(small, tmp_path, address)
        taken.listen()  # but never answers
        assert f"--address is {address!r}, but nothing answers there (timed out)" in refused(small, tmp_path, address)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server, redirect_stderr(StringIO()):
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert "is no Ray head" in refused(small, tmp_path, f"ray://127.0.0.1:{server.server_port}")
    for address in ("nowhere", "nowhere:", ":6379", "nowhere:port", "nowhere.invalid:99999999"):
        assert f"--address is {address!r}, but" in refused(small, tmp_path, address)


def test_without_ray_the_extra_is_named(small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused(small, tmp_path, None) == "--engine ray needs Ray: install it with pip install 'inweights[sweep]'."
