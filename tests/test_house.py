"""The plan of the house, guarded: imports point downward, heavy things load late, the wheel is complete."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import venv
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import inweights

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "inweights"

# A room may import from rooms on lower floors, and from itself. The files of the package itself are the ground.
FLOORS = [
    {"_errors", "_files", "_fetch", "_read", "_safetensors"},
    {"theory", "engines"},
    {"blocks", "models", "data"},
    {"lab", "compare", "fold"},
    {"claims", "bench"},
    {"report"},
    {"app", "cli"},
]
FLOOR = {room: i for i, rooms in enumerate(FLOORS) for room in rooms}


def imported(source: str) -> set[str]:
    """Every module that a source file imports, at the top or inside a function, unless for types only."""
    found = set()

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                self.generic_visit(node)

        def visit_Import(self, node: ast.Import) -> None:
            found.update(alias.name for alias in node.names)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            assert node.level == 0, "imports are absolute here"
            found.update(
                f"{node.module}.{alias.name}" if node.module == "inweights" else str(node.module)
                for alias in node.names
            )

    Visitor().visit(ast.parse(source))
    return found


def upward(room: str, source: str) -> list[str]:
    """The imports of a file in `room` that do not point downward."""
    wrong = []
    for module in imported(source):
        parts = module.split(".")
        if parts[0] != "inweights" or len(parts) == 1 or parts[1] in (room, "__version__"):
            continue
        if FLOOR[parts[1]] >= FLOOR[room]:
            wrong.append(module)
    return wrong


def rooms_and_files() -> list[tuple[str, Path]]:
    return [(path.relative_to(SRC).parts[0], path) for path in SRC.rglob("*.py") if path.parent != SRC]


def test_imports_point_downward_only() -> None:
    wrong = {str(path): bad for room, path in rooms_and_files() if (bad := upward(room, path.read_text()))}
    assert not wrong


def test_the_guard_of_imports_can_fail() -> None:
    assert upward("theory", "def f():\n    from inweights.lab import OneBlock") == ["inweights.lab"]
    assert upward("lab", "import inweights.fold._solve") == ["inweights.fold._solve"]
    assert upward("blocks", "from inweights import report") == ["inweights.report"]
    assert upward("lab", "from inweights.theory import Update\nimport torch") == []
    assert upward("engines", "from inweights.lab.sweep import Cell") == ["inweights.lab.sweep"]
    assert upward("engines", "from inweights.claims._ledger import Job") == ["inweights.claims._ledger"]
    assert upward("claims", "from inweights.report import _claims") == ["inweights.report"]
    assert upward("claims", "from inweights.engines import choose\nfrom inweights.lab import Draw") == []
    assert upward("lab", "from inweights.claims import run") == ["inweights.claims"]


def test_theory_imports_nothing_but_torch() -> None:
    allowed = {"torch", "inweights", *sys.stdlib_module_names}
    for room, path in rooms_and_files():
        if room == "theory":
            assert {module.split(".")[0] for module in imported(path.read_text())} <= allowed, path


HEAVY = ("torch", "transformers", "numpy", "matplotlib", "peft", "scipy")
LOADED = f"import sys; print([m for m in {HEAVY!r} if m in sys.modules])"


def loaded_by(code: str) -> list[str]:
    out = subprocess.run([sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=True)
    return ast.literal_eval(out.stdout.splitlines()[-1])


HELP = (
    "import sys\nsys.argv = ['inweights', {args}]\nfrom inweights.cli import main\ntry: main()\nexcept SystemExit: pass"
)


@pytest.mark.parametrize(
    "args",
    ["'--help'", "'demo', '--help'", "'bench', '--help'", "'--version'", "'bench', 'nonsense'", "'data', 'list'"],
)
def test_help_loads_nothing_heavy(args: str) -> None:
    assert loaded_by(HELP.format(args=args)) == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import inweights; dir(inweights); inweights.__version__") == []


def test_the_guard_of_loading_can_fail() -> None:
    assert "torch" in loaded_by("import inweights; inweights.Update")


def test_help_answers_quickly() -> None:
    """Seconds of the processor, the best of five, against 0.3 s: a coarse guard, as other work slows it down, too."""
    command = [Path(sys.executable).with_name("inweights"), "--help"]
    best = 9.0
    for _ in range(5):
        before = os.times()
        subprocess.run(command, capture_output=True, check=True)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, used)
    assert best < 0.6


def test_the_stub_says_what_the_package_has() -> None:
    stub = ast.parse((SRC / "__init__.pyi").read_text())
    named = {a.asname for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names}
    annotated = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert named | annotated == set(inweights.__all__)
    assert all(getattr(inweights, name) is not None for name in inweights.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = inweights.nonsense


def test_versions_agree() -> None:
    assert f'version = "{inweights.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_most_files_are_short() -> None:
    """One idea per file: the design asks for under 300 lines in most, and none here is over 400."""
    assert [path for path in SRC.rglob("*.py") if len(path.read_text().splitlines()) > 400] == []


def test_the_readme_shows_both_commands_and_pictures_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text) + re.findall(r'src="([^"]+)"', text):
        assert (ROOT / link).exists(), link


def test_the_python_of_the_readme_runs_and_prints_what_it_says() -> None:
    """Every ```python block of the README is run; the comments `# prints …` are what it prints."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for code in blocks:
        out = io.StringIO()
        with redirect_stdout(out):  # in this process: a new one takes seconds to load torch
            exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
        promised = re.findall(r"# prints (.+)", code)
        assert promised
        assert out.getvalue().splitlines() == promised


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment outside the checkout with nothing of ours but the built wheel.

    The dependencies are lent by a path file: installing torch anew would take minutes and show nothing.
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
from inweights.cli import main
from inweights.lab.section4 import _experiment, finetuning
_experiment.finetuning = partial(finetuning, trials=4, rates=(0.1,))  # for time
print(inweights.__file__)
for command in (
    "--help", "bench update --json", "demo --only-block --steps 20 --out page --json", "claims list --json",
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
    where, *said = done.stdout.splitlines()
    assert str(elsewhere) in where, "the wheel's package, not the checkout's"
    help_, bench, demo, claims, lab = map(ast.literal_eval, said)
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
