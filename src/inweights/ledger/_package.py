"""The source code of the package: the definitions of its modules, and what each name refers to, without importing."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

# A change in these subpackages makes recorded results stale. A change below them is only remarked.
LEDGER = ("ledger", "papers")
# Subpackages that affect no number; neither do the top-level files of the package. They start processes, phrase error
# messages, and read and write files.
ASIDE = ("engines",)
# Files of the ledger that judge, store and list results: they do not affect the result of a trial.
CORE = (
    "__init__", "_cache", "_claim", "_code", "_criteria", "_facts", "_intervals", "_json", "_judge",
    "_package", "_papers", "_reach", "_recorded", "_register", "_rejudge", "_remarks", "_results", "_run",
    "_show", "_side_by_side", "_skeleton",
)  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Place(NamedTuple):
    """A top-level definition: its module and its name."""

    module: str
    name: str


@dataclass
class Module:
    """The content of a source file: the names that it defines, the names that it imports, and (`done`) statements that
    define nothing but have a side effect, such as adding a value to a dictionary."""

    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def take(self, statement: ast.stmt) -> None:
        imported = dict(imports([statement]))
        self.imported |= imported
        names = bound([statement]) - set(imported)
        for each in _one_by_one(statement):
            for name in names & bound([each]):
                self.defined.setdefault(name, []).append(each)
        if not names and not imported and not stands_alone(statement):
            self.done.append(f"<{len(self.done)}>")
            self.defined[self.done[-1]] = [statement]

    def divide(self, name: str) -> None:
        """Turns the methods of a class into separate definitions, so that a program can depend on some of them only."""
        (whole,) = self.defined[name]
        assert isinstance(whole, ast.ClassDef)
        rest = copy.copy(whole)
        rest.body = [s for s in whole.body if not isinstance(s, Function) or s.name.startswith("__")]
        self.defined[name] = [rest]
        self.defined |= {f"{name}.{s.name}": [s] for s in whole.body if s not in rest.body and isinstance(s, Function)}


@dataclass(eq=False)
class Package:
    """A package in the folder `home`. `given` is the class that claim functions receive an instance of: a program
    depends only on those of its methods that it uses."""

    home: Path
    given: Place | None = None
    ledger: Sequence[str] = LEDGER
    core: Sequence[str] = CORE

    @cached_property
    def modules(self) -> dict[str, Module]:
        """All modules of the package, by name."""
        results = {}
        for path in sorted(self.home.rglob("*.py")):
            parts = (self.home.name, *path.relative_to(self.home).with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            results[name] = Module()
            for statement in ast.parse(path.read_text(encoding="utf-8")).body:
                results[name].take(statement)
        if self.given:
            results[self.given.module].divide(self.given.name)
        return results

    def find(self, module: str, name: str) -> Place | str | None:
        """What a name in a module refers to: a definition or a module of this package; None if it is external."""
        known = self.modules.get(module)
        if known is not None and name in known.defined:
            return Place(module, name)
        itself = (module, name)  # a subpackage that imports a module of its own
        if known is not None and name in known.imported and known.imported[name] != itself:
            return self.imported(*known.imported[name])
        return f"{module}.{name}" if f"{module}.{name}" in self.modules else None

    def imported(self, module: str, name: str) -> Place | str | None:
        """What an import refers to; without a name, the module. None if it is external."""
        if not name:
            return module if module in self.modules else None
        return self.find(module, name) if module in self.modules else None

    def definition(self, place: Place) -> list[ast.stmt]:
        return self.modules[place.module].defined[place.name]

    def inside(self, module: str | None) -> bool:
        """Whether a module belongs to this package."""
        return str(module).partition(".")[0] == self.home.name

    def of_the_ledger(self, module: str) -> bool:
        return self._part(module) in self.ledger

    def of_the_core(self, module: str) -> bool:
        """Whether a module belongs to the ledger but does not affect trials."""
        last = module.split(".")[-1]
        return self.of_the_ledger(module) and (last in self.core or module.count(".") == 1)

    def aside(self, module: str) -> bool:
        """Whether no number depends on a module."""
        part = self._part(module)
        return self.of_the_core(module) or part in ("", *ASIDE) or f"{self.home.name}.{part}" in self._single

    def _part(self, module: str) -> str:
        """The subpackage or top-level file that a module is or belongs to; empty for the package itself."""
        return module.partition(".")[2].partition(".")[0]

    @cached_property
    def _single(self) -> set[str]:
        return {f"{self.home.name}.{path.stem}" for path in self.home.glob("*.py")}

    def texts(self, module: str) -> Iterator[Path]:
        """The `.toml` and `.txt` files of the subpackage that a module belongs to."""
        part = self.home / self._part(module)
        return (p for p in sorted(part.rglob("*")) if p.suffix in (".toml", ".txt"))


def imports(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that import statements bind, each with `(module, name in the module)`; the latter is empty for a module
    itself. Nested statements are included; functions and classes are not."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, (alias.name if alias.asname else first, "")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, (node.module or "", alias.name)
        elif not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            yield from imports(list(ast.iter_child_nodes(node)))


def bound(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that statements bind in their own scope, not in nested functions or classes."""
    results: set[str] = set()
    elsewhere: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if isinstance(node, Function | ast.ClassDef):
            results.add(node.name)
        elif isinstance(node, COMPREHENSIONS):
            results |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            results.add(node.id)
        elif isinstance(node, ast.Global):
            elsewhere.update(node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            results.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            results.add(node.rest)
        results |= {name for name, _ in imports([node])} if isinstance(node, ast.Import | ast.ImportFrom) else set()
        if not isinstance(node, (Function, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)):
            todo.extend(ast.iter_child_nodes(node))
    return results - elsewhere


def stands_alone(node: object) -> bool:
    """Whether a node is a string that is an expression statement, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """Splits `a, b = 1, 2` into two statements: code that uses one of the names does not depend on the other."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return [statement]
    target, value = statement.targets[0], statement.value
    if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)):
        return [statement]
    if any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts)):
        return [statement]
    return [ast.Assign([t], v) for t, v in zip(target.elts, value.elts, strict=True)]
