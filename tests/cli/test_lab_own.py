"""A user's own task through the command line: the commands of docs/lab.md, at a smaller size."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inweights.lab import _own

GUIDE = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
SMALL = ("--set", "steps=3", "--set", "batch=4", "--set", "model.layers=1", "--set", "points=4")
LESS = {"train": SMALL, "eval": ("--prompts", "8"), "sweep": (*SMALL, "--prompts", "8", "--jobs", "1")}


def forget(before: dict[str, Any]) -> None:
    """Removes what a file has registered, as if the process were new."""
    for what, registry in _own.REGISTRIES.items():
        registry.restore(before[what])
    for name in [n for n in sys.modules if n.startswith(_own.PREFIX)]:
        del sys.modules[name]


@pytest.fixture
def anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    (code,) = re.findall(r"```py\n(# cubic\.py\n.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "cubic.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = {what: registry.kinds() for what, registry in _own.REGISTRIES.items()}
    yield lambda: forget(before)
    forget(before)


def test_the_commands_of_the_guide(anew: Callable[[], None], lab: Callable[..., Any]) -> None:
    commands = [shlex.split(line) for line in re.findall(r"\$ inweights lab (.*--load cubic\.py.*)", GUIDE)]
    assert [c[0] for c in commands] == ["show", "train", "eval", "sweep"]
    output = {}
    for command in commands:
        anew()
        output[command[0]] = lab(*command, *LESS.get(command[0], ()), "--json").stdout
    (shown,) = json.loads(output["show"])["found"]
    assert (shown["about"], shown["facts"]["power"]) == ("`y = Σ w_i x_i³`, `w, x ~ N(0, I)`.", 300)
    assert json.loads(output["eval"])["power"] == 30  # of two dimensions
    cells = json.loads(output["sweep"])["cells"]
    assert [(c["settings"], c["status"], c["message"]) for c in cells] == [
        ({"task.dims": n}, "done", "") for n in (1, 2, 3)
    ]


def test_nothing_runs_a_file_that_is_not_named(
    anew: Callable[[], None], lab: Callable[..., Any], refused: Callable[..., str]
) -> None:
    assert "There is no task 'cubic'" in refused("train", "linear-5", "--set", "task.kind=cubic")
    lab("train", "linear-5", "--load", "cubic.py", "--set", "task.kind=cubic", *SMALL, "--out", "cubic")
    anew()
    assert "made with a task 'cubic' from a file of its own: name that file with --load" in refused("eval", "cubic")
    assert "The file of --load 'none.py' cannot be read, there is no such file" in refused(
        "eval", "cubic", "--load", "none.py"
    )
