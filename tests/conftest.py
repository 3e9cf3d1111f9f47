"""Fixtures for all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import settings

from inweights.cli import main

# Two test processes share two cores, and a first call may compile or page things in: no deadlines.
settings.register_profile("house", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("house")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`run("verify", …)`: the exit code and the output of `inweights verify …`."""

    def call(*args: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["inweights", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        return Ended(int(end.value.code or 0), *capsys.readouterr())

    return call


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says so loudly where the page was not tested in a browser: a skipped test alone is easily overlooked."""
    missed = [r for r in terminalreporter.stats.get("skipped", []) if "no browser" in str(r.longrepr)]
    if missed:
        line = f"{len(missed)} BROWSER TESTS DID NOT RUN: install chromium, or run `playwright install chromium`"
        terminalreporter.write_sep("!", line, red=True, bold=True)


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def load_once() -> Callable[..., Any]:
    """`load`, but every model is read once: for tests that leave it as it was."""
    from inweights.models import load

    read = cache(load)

    @wraps(load)
    def once(spec: str = "smollm2", *, dtype: str = "float32", device: str = "auto") -> Any:
        return read(spec, dtype=dtype, device=device)

    return once


@pytest.fixture
def loaded_once(load_once: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that loads a model by itself gets one that others have loaded."""
    monkeypatch.setattr("inweights.models.load", load_once)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A Ray cluster of one node, to which tests add others: it takes seconds to start."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    result = Cluster(initialize_head=True, head_node_args=node)
    yield result
    result.shutdown()


# A function of __main__ travels to the workers of Ray as it is, so that they have the same one.
SCOPE: dict[str, Any] = {"__name__": "__main__"}
exec(
    """
def works_or_hangs(work):
    import ray, time
    from inweights.engines._ray import away
    answer = away(work)
    home = next(p for p in work.folder.parents if (p / "doomed").exists())
    worked = home / "worked"
    if ray.get_runtime_context().get_node_id() == (home / "doomed").read_text():
        worked.write_text(work.key)
        time.sleep(600)
    (home / ("again-" + work.key.replace("/", "-"))).touch()
    end = time.monotonic() + 120
    while not worked.exists():  # the others wait for it: one fast node could do everything alone
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer
""",
    SCOPE,
)


class Doomed:
    """A second node of a cluster, which does its work and never returns the answer, until it is killed."""

    def __init__(self, cluster: Any, home: Path) -> None:
        self.cluster, self.home = cluster, home
        self.node = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)

    def kill(self) -> None:
        """To be called after the first result: by then the node has done some work."""
        self.cluster.remove_node(self.node, allow_graceful=False)

    @property
    def done_again(self) -> bool:
        """Whether the work that was lost with the node was done once more elsewhere."""
        key = (self.home / "worked").read_text()
        return (self.home / f"again-{key.replace('/', '-')}").exists()


@pytest.fixture
def doomed(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doomed:
    """For work whose folder is somewhere under `tmp_path`."""
    from inweights.engines import _ray

    node = Doomed(cluster, tmp_path)
    (tmp_path / "doomed").write_text(node.node.node_id)
    monkeypatch.setattr(_ray, "away", SCOPE["works_or_hangs"])
    return node
