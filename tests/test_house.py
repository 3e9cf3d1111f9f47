"""Rules for the structure of the package: imports, names, lengths, lazy loading, the content of the wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import inweights

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "inweights"

# A subpackage may import from those on lower floors, and from itself. The files of the package itself are the ground.
FLOORS = [
    {"_compared", "_draw", "_errors", "_fetch", "_figures", "_files", "_read", "_resample", "_safetensors"},
    {"theory", "engines"},
    {"blocks", "running", "data"},
    {"models"},
    {"lab", "folding"},
    {"ledger"},
    {"compare"},
    {"papers", "bench"},
    {"report"},
    {"app"},
    {"cli"},
]
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
# Subpackages of a subpackage that others may import from, as from the subpackage itself.
PUBLIC = {"lab.models", "lab.predictors", "lab.section4", "lab.sweep", "lab.tasks", "lab.training", "lab.zoo"}


def imports(source: str) -> list[tuple[str, str]]:
    """`(module, name)` of every import, at the top or inside a function; `""` for a module as a whole."""
    pairs = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            pairs += [(alias.name, "") for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            pairs += [(str(node.module), alias.name) for alias in node.names]
    return pairs


def for_types_only(source: str) -> list[tuple[str, str]]:
    guarded = [
        n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    ]
    return [pair for node in guarded for pair in imports(ast.unparse(node))]


def imported(source: str) -> set[str]:
    """Every module that a source file imports, unless for types only."""
    pairs = set(imports(source)) - set(for_types_only(source))
    return {f"{module}.{name}" if module == "inweights" and name else module for module, name in pairs}


def upward(home: str, source: str) -> list[str]:
    """The imports of a file in a subpackage that do not point downward."""
    wrong = []
    for module in sorted(imported(source)):
        parts = module.split(".")
        if parts[0] != "inweights" or len(parts) == 1 or parts[1] in (home, "__version__"):
            continue
        if FLOOR[parts[1]] >= FLOOR[home]:
            wrong.append(module)
    return wrong


def exported(package: str) -> set[str]:
    """What the `__init__` of a subpackage exports: names imported as themselves, definitions, and plain modules."""
    path = SRC.joinpath(*package.split("."), "__init__.py")
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {a.asname for a in node.names if a.asname == a.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    names |= {p.split(".")[-1] for p in PUBLIC if p.startswith(f"{package}.")}
    return {name for name in names if not name.startswith("_")}


def private(home: str, source: str) -> list[str]:
    """The imports of a file in a subpackage that another subpackage does not export. Imports for types only are
    included."""
    wrong = []
    for module, name in imports(source):
        parts = module.split(".")
        if parts[0] != "inweights" or len(parts) == 1 or parts[1] == home or FLOOR.get(parts[1], 0) == 0:
            continue
        package = ".".join(parts[1:])
        public = package in PUBLIC or len(parts) == 2
        if not public or not name or name not in exported(package):
            wrong.append(f"{module}.{name}".rstrip("."))
    return wrong


def subpackages_and_files() -> list[tuple[str, Path]]:
    return [(path.relative_to(SRC).parts[0], path) for path in SRC.rglob("*.py") if path.parent != SRC]


def test_imports_point_downward_only() -> None:
    wrong = {str(path): bad for home, path in subpackages_and_files() if (bad := upward(home, path.read_text()))}
    assert not wrong


def test_the_guard_of_imports_can_fail() -> None:
    assert upward("theory", "def f():\n    from inweights.lab import OneBlock") == ["inweights.lab"]
    assert upward("lab", "import inweights.folding._solve") == ["inweights.folding._solve"]
    assert upward("blocks", "from inweights import report") == ["inweights.report"]
    assert upward("lab", "from inweights.theory import Update\nimport torch") == []
    assert upward("running", "from inweights.models import Patch") == ["inweights.models"]
    assert upward("engines", "from inweights.ledger._run import Job") == ["inweights.ledger._run"]
    assert upward("ledger", "from inweights.papers import load_all") == ["inweights.papers"]
    assert upward("papers", "from inweights.report import _claims") == ["inweights.report"]
    assert upward("papers", "from inweights.ledger import claim\nfrom inweights.lab import Draw") == []


def test_only_exported_names_are_imported_from_other_subpackages() -> None:
    wrong = {str(path): bad for home, path in subpackages_and_files() if (bad := private(home, path.read_text()))}
    assert not wrong


def test_the_guard_of_private_names_can_fail() -> None:
    assert private("folding", "from inweights.models._load import load") == ["inweights.models._load.load"]
    assert private("folding", "from inweights.models import _load") == ["inweights.models._load"]
    assert private("folding", "from inweights.models import nonsense") == ["inweights.models.nonsense"]
    assert private("folding", "import inweights.models._load") == ["inweights.models._load"]
    assert private("papers", "from inweights.lab.models._decoder import Decoder") == [
        "inweights.lab.models._decoder.Decoder"
    ]
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from inweights.models._load import Model"
    assert private("folding", hidden) == ["inweights.models._load.Model"]
    assert private("folding", "from inweights.models import load\nfrom inweights.folding._card import Card") == []
    assert private("papers", "from inweights.lab.models import Decoder\nfrom inweights.lab import zoo") == []


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import themselves by way of others."""
    graph, result = dict(graph), True
    while result:  # what imports nothing that is left cannot be part of a cycle
        result = [name for name, others in graph.items() if not others & set(graph)]
        for name in result:
            del graph[name]
    return sorted(graph)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """At the top of files; a function may import late what needs its module."""
    graph: dict[str, set[str]] = {}
    for path in SRC.rglob("*.py"):
        name = ".".join(("inweights", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")
        top = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)]
        graph[name] = {f"{m}.{n}" for node in top for m, n in imports(ast.unparse(node))} | {
            m for node in top for m, _ in imports(ast.unparse(node))
        }
        if path.name == "__init__.py":  # a module of a subpackage imports the subpackage, too, but needs none of it
            graph[name] -= {name}
    inner = {name: {m for m in others if m in graph and not name.startswith(f"{m}.")} for name, others in graph.items()}
    assert cycles(inner) == []


def test_the_guard_of_cycles_can_fail() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def meanings(exports: dict[str, dict[str, object]]) -> dict[str, list[str]]:
    """Names with different meanings in different subpackages."""
    names = {name for values in exports.values() for name in values}
    homes = {name: [home for home, values in exports.items() if name in values] for name in names}
    return {n: where for n, where in homes.items() if len({id(exports[home][n]) for home in where}) > 1}


def test_a_public_name_has_one_meaning() -> None:
    homes = [*(h for names in FLOORS[1:] for h in names if (SRC / h).is_dir() and h not in ("cli", "bench")), *PUBLIC]
    modules = {home: import_module(f"inweights.{home}") for home in homes}
    exports = {home: {name: getattr(modules[home], name) for name in exported(home)} for home in homes}
    exports[""] = {name: getattr(inweights, name) for name in inweights.__all__ if not name.startswith("_")}
    values = {
        home: {n: v for n, v in names.items() if not isinstance(v, ModuleType)} for home, names in exports.items()
    }
    assert meanings(values) == {}


def test_the_guard_of_meanings_can_fail() -> None:
    one, other = object(), object()
    assert meanings({"a": {"x": one}, "b": {"x": other, "y": one}}) == {"x": ["a", "b"]}
    assert meanings({"a": {"x": one}, "b": {"x": one}}) == {}


def test_theory_imports_nothing_but_torch() -> None:
    allowed = {"torch", "inweights", *sys.stdlib_module_names}
    for home, path in subpackages_and_files():
        if home == "theory":
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


def test_the_stub_matches_the_package() -> None:
    stub = ast.parse((SRC / "__init__.pyi").read_text())
    named = {a.asname for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names}
    annotated = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert named | annotated == set(inweights.__all__)
    assert all(getattr(inweights, name) is not None for name in inweights.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = inweights.nonsense


def test_versions_agree() -> None:
    assert f'version = "{inweights.__version__}"' in (ROOT / "pyproject.toml").read_text()


def long_functions(source: str, most: int = 60) -> list[str]:
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > most]


def test_files_and_functions_are_short() -> None:
    """One idea per file: at most 300 lines, and 60 for a function."""
    paths = [*SRC.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert [path for path in paths if len(path.read_text().splitlines()) > 300] == []
    assert {str(path): names for path in paths if (names := long_functions(path.read_text()))} == {}


def test_the_guard_of_lengths_can_fail() -> None:
    assert long_functions("def f():\n" + "    x = 1\n" * 60) == ["f"]
    assert long_functions("def f():\n" + "    x = 1\n" * 59) == []


def test_the_readme_shows_both_commands_and_pictures_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert "make demo" in text
    assert "make test" in text
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text) + re.findall(r'src="([^"]+)"', text):
        assert (ROOT / link).exists(), link
