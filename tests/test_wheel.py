"""The built wheel, installed apart from the checkout, has everything that commands need."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "inweights"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment outside the checkout with nothing of ours but the built wheel.

    The dependencies are added by a path file: installing torch again would take minutes and test nothing.
    """
    home = tmp_path_factory.mktemp("elsewhere")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(home)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = home.glob("*.whl")
    venv.create(home / "env", with_pip=False)
    (site,) = (home / "env" / "lib").glob("*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    lent = next(p for p in sys.path if p.endswith("site-packages"))
    (site / "lent.pth").write_text(lent + "\n")
    return home


COMMANDS = """
import io, sys
from contextlib import redirect_stdout
from functools import partial
import inweights
from inweights.bench import update
from inweights.cli import main
from inweights.lab.section4 import _experiment, finetuning
_experiment.finetuning = partial(finetuning, trials=4, rates=(0.1,))  # for time
update.run = partial(update.run, tasks=4, rounds=1)
print(inweights.__file__)
for command in (
    "--help", "bench update --json", "demo --only-block --steps 1 --out page --json", "claims list --json",
    "lab eval lsa-1 --prompts 8 --json",
):
    sys.argv, out = ["inweights", *command.split()], io.StringIO()
    try:
        with redirect_stdout(out):
            main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
    print(repr(out.getvalue()))
"""


def test_the_wheel_holds_all_that_commands_need(elsewhere: Path) -> None:
    """The commands one after the other in one process: each new one would take seconds to load torch."""
    command = [str(elsewhere / "env" / "bin" / "python"), "-c", COMMANDS]
    apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere, env=apart)
    assert done.returncode == 0, done.stderr
    where, *output = done.stdout.splitlines()
    assert str(elsewhere) in where, "the wheel's package, not the checkout's"
    help_, bench, demo, claims, lab = map(ast.literal_eval, output)
    assert "demo" in help_
    assert json.loads(bench)["agrees"]
    assert (elsewhere / json.loads(demo)["report"]).read_text().startswith("<!doctype html>")
    assert json.loads(claims)["claims"]
    assert json.loads(lab)["curves"]
    installed = Path(where).parent
    missing = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not (installed / path.relative_to(SRC)).is_file()
    }
    assert not missing
