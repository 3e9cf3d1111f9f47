"""The package as text: what its modules define, and what a name in them stands for. Nothing is imported for that."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

# The subpackages whose code makes a record stale. What is below them is only remarked.
LEDGER = ("ledger", "papers")
# Subpackages that change no number, as do not the files of the package itself: they start processes, word refusals,
# read and write files.
ASIDE = ("engines",)
# What judges, keeps and lists results does not change what a trial finds: these files of the ledger.
CORE = (
    "__init__", "_claim", "_code", "_criteria", "_json", "_judge", "_cache", "_results", "_run", "_made_with",
    "_package", "_papers", "_recorded", "_reach", "_remarks", "_side_by_side", "_skeleton",
)  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Place(NamedTuple):
    """Something that a module defines at its top."""

    module: str
    name: str


@dataclass
class Module:
    """What a file says: names that are defined in it, names that it imports, and statements that only do something,
    such as entering a value into a dictionary."""

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
        """Makes the methods of a class definitions of their own, so that a program may have some of them."""
        (whole,) = self.defined[name]
        assert isinstance(whole, ast.ClassDef)
        rest = copy.copy(whole)
        rest.body = [s for s in whole.body if not isinstance(s, Function) or s.name.startswith("__")]
        self.defined[name] = [rest]
        self.defined |= {f"{name}.{s.name}": [s] for s in whole.body if s not in rest.body and isinstance(s, Function)}


@dataclass(eq=False)
class Package:
    """A package in a folder. `given` is the class that a claim's function is given an instance of: of its methods, a
    program has those that it asks for."""

    home: Path
    given: Place | None = None
    ledger: Sequence[str] = LEDGER
    core: Sequence[str] = CORE

    @cached_property
    def modules(self) -> dict[str, Module]:
        """All of them, by their names."""
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
        """What a name in a module stands for: a definition, or a module of this package; None if it is from outside."""
        known = self.modules.get(module)
        if known is not None and name in known.defined:
            return Place(module, name)
        itself = (module, name)  # a subpackage that imports a module of its own
        if known is not None and name in known.imported and known.imported[name] != itself:
            return self.imported(*known.imported[name])
        return f"{module}.{name}" if f"{module}.{name}" in self.modules else None

    def imported(self, module: str, name: str) -> Place | str | None:
        """What an import gives; without a name, the module."""
        if not name:
            return module if module in self.modules else None
        return self.find(module, name) if module in self.modules else None

    def definition(self, place: Place) -> list[ast.stmt]:
        return self.modules[place.module].defined[place.name]

    def inside(self, module: str | None) -> bool:
        """Whether a module is one of this package."""
        return str(module).partition(".")[0] == self.home.name

    def of_the_ledger(self, module: str) -> bool:
        return self._part(module) in self.ledger

    def of_the_core(self, module: str) -> bool:
        """Whether it is of the ledger and no part of a trial."""
        last = module.split(".")[-1]
        return self.of_the_ledger(module) and (last in self.core or module.count(".") == 1)

    def aside(self, module: str) -> bool:
        """Whether no number hangs on what a module has."""
        part = self._part(module)
        return self.of_the_core(module) or part in ("", *ASIDE) or f"{self.home.name}.{part}" in self._single

    def _part(self, module: str) -> str:
        """The subpackage or file of the package that a module is or is in; of the package itself, none."""
        return module.partition(".")[2].partition(".")[0]

    @cached_property
    def _single(self) -> set[str]:
        return {f"{self.home.name}.{path.stem}" for path in self.home.glob("*.py")}

    def texts(self, module: str) -> Iterator[Path]:
        """Small files that come with the part of the package that a module is in."""
        part = self.home / self._part(module)
        return (p for p in sorted(part.rglob("*")) if p.suffix in (".toml", ".txt"))


def imports(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that import statements bind, also inside of other statements but not of functions, each with the
    module and, if it is something in that, its name there."""
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
    """The names that statements bind where they stand, and not in functions or classes inside of them."""
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
    """Whether it is a string that nobody uses, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """`a, b = 1, 2` as two statements: who asks for one of them does not ask for the other."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return [statement]
    target, value = statement.targets[0], statement.value
    if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)):
        return [statement]
    if any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts)):
        return [statement]
    return [ast.Assign([t], v) for t, v in zip(target.elts, value.elts, strict=True)]
