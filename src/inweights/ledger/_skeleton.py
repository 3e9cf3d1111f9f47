"""The syntax tree of a definition as plain values, without comments, docstrings, and names of modules and locals."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from inweights.ledger._package import COMPREHENSIONS, Package, Place, bound, imports, stands_alone

WITH_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *COMPREHENSIONS)


def digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Read:
    """A parsed definition.

    - `own`: its hash.
    - `uses`: the definitions that it refers to, each with the name that it uses for them.
    - `entered`: the registries that it is registered in.
    - `attributes`: all attribute names in it.
    - `texts`: whether it reads files of the package.
    """

    own: str
    uses: tuple[tuple[str, Place], ...]
    entered: tuple[Place, ...]
    attributes: frozenset[str]
    texts: bool


@dataclass
class _Scope:
    """The names bound inside a definition, those among them that are imported there, and arguments."""

    names: set[str]
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    of_a_class: bool = False
    arguments: frozenset[str] = frozenset()


class Reader:
    """Parses definitions of a module. Modules and local variables are numbered in order of appearance: their names are
    not hashed. Names of arguments are, as calls may use them."""

    def __init__(self, package: Package, module: str) -> None:
        self.package, self.module = package, module
        self.uses: set[tuple[str, Place]] = set()
        self.entered: set[Place] = set()
        self.attributes: set[str] = set()
        self.texts = False
        self._modules: dict[str, int] = {}
        self._locals: dict[tuple[int, str], int] = {}
        self._fixed: set[str] = set()
        self._known: dict[ast.AST, _Scope] = {}
        self._scopes: list[_Scope] = []
        self._silent = False

    def read(self, label: str, statements: Sequence[ast.AST]) -> Read:
        elsewhere = (n for s in statements for n in ast.walk(s) if isinstance(n, ast.Nonlocal | ast.Global))
        self._fixed = {name for node in elsewhere for name in node.names}
        own = digest((label, self.tree(list(statements))))
        return Read(own, tuple(sorted(self.uses)), tuple(sorted(self.entered)), frozenset(self.attributes), self.texts)

    def tree(self, node: Any) -> Any:
        """A syntax tree as plain values. Empty fields are left out, as later versions of Python have more of them and
        the hash should stay the same."""
        if isinstance(node, list):
            return [self.tree(n) for n in node if not (stands_alone(n) or self._is_import(n))]
        if not isinstance(node, ast.AST):
            return node
        if isinstance(node, ast.Attribute):
            self.attributes.add(node.attr)
        if isinstance(node, ast.Name) and node.id == "__file__":
            self.texts = True
        if isinstance(node, ast.Name) and (number := self._local(node.id)) is not None:
            return "Local", number, type(node.ctx).__name__
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            return self._named(node)
        if isinstance(node, ast.Constant) and "." in str(node.value) and node.value in self.package.modules:
            self.texts = True  # as in `files("package.part")`
            return "Module", self._number(node.value)
        return self._node(node)

    def _node(self, node: ast.AST) -> Any:
        results = []
        for name, value in ast.iter_fields(node):
            if name == "kind" or value is None or value == []:
                continue
            if name == "decorator_list":
                results.append((name, [self._decorator(d) for d in value if not self._lists(d)]))
            elif isinstance(node, WITH_SCOPE) and (name in ("body", "elt", "key", "value", "generators")):
                with self._inside(node):
                    results.append((name, self.tree(value)))
            elif name == "returns" or (name == "annotation" and not (self._scopes and self._scopes[-1].of_a_class)):
                with self._silence():
                    results.append((name, self.tree(value)))
            elif isinstance(value, ast.arguments):
                results.append((name, self._arguments(value)))
            else:
                results.append((name, self.tree(value)))
        return type(node).__name__, results

    def _arguments(self, all: ast.arguments) -> Any:
        """Type annotations of arguments are part of the tree, but the names in them are not followed; those in defaults
        are."""
        with self._silence():
            names = [self.tree(a) for a in (all.posonlyargs, all.args, all.kwonlyargs, all.vararg, all.kwarg)]
        return names, [self.tree(d) for d in all.defaults], [self.tree(d) for d in all.kw_defaults]

    def _named(self, node: ast.Name | ast.Attribute) -> Any:
        home = self.target(node.value) if isinstance(node, ast.Attribute) else self.module
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if not isinstance(home, str):
            return self._node(node)
        result = self.target(node)
        label = name if isinstance(node, ast.Name) else f"{self._number(home)}.{name}"
        if isinstance(result, str):  # a module itself: depends on all its definitions
            number = self._number(result)
            self._use([(f"{number}.{each}", Place(result, each)) for each in self.package.modules[result].defined])
            return "Module", number
        if result is not None and not name.startswith("__"):
            self._use([(label, result)])
        return ("Name", name) if isinstance(node, ast.Name) else ("Of", label)

    def target(self, node: ast.AST) -> Place | str | None:
        """The definition or module of the package that a name or an attribute refers to; None if it is external."""
        if isinstance(node, ast.Attribute):
            home = self.target(node.value)
            return self.package.find(home, node.attr) if isinstance(home, str) else None
        if not isinstance(node, ast.Name):
            return None
        for k, scope in enumerate(reversed(self._scopes)):
            if scope.of_a_class and k:  # names bound in a class body are not visible in its methods
                continue
            if node.id in scope.imported:
                return self.package.imported(*scope.imported[node.id])
            if node.id in scope.names:
                return None
        return self.package.find(self.module, node.id)

    def _local(self, name: str) -> int | None:
        """The number of a local variable; None for any other name, and for arguments."""
        for k, scope in enumerate(reversed(self._scopes)):
            if name in scope.names and not (scope.of_a_class and k):
                free = scope.of_a_class or name in scope.imported or name in scope.arguments or name in self._fixed
                return None if free else self._locals.setdefault((id(scope), name), len(self._locals))
        return None

    def root(self, node: ast.AST) -> Place | None:
        """The object that a statement changes: `TASKS` in `TASKS["name"] = …`, `TASKS("name")(…)`, `TASKS.enter(…)`."""
        while True:
            result = self.target(node)
            if isinstance(result, Place):
                return result
            if isinstance(node, ast.Attribute | ast.Subscript | ast.Expr):
                node = node.value
            elif isinstance(node, ast.Call):
                node = node.func
            elif isinstance(node, ast.Assign | ast.Delete):
                node = node.targets[0]
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                node = node.target
            else:
                return None

    def enters(self, decorator: ast.expr) -> Place | None:
        """The object that a decorator registers a definition in: a registry, which is an instance of a class of the
        package, or a single-dispatch function. Code that uses the definition does not depend on its other entries."""
        root = self.root(decorator)
        if root is None or not isinstance(decorator, ast.Call | ast.Attribute):
            return None
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(function, ast.Attribute) and function.attr == "register":
            return root
        return root if isinstance(self.package.definition(root)[0], ast.Assign | ast.AnnAssign) else None

    def _decorator(self, node: ast.expr) -> Any:
        before, into = set(self.uses), self.enters(node)
        result = self.tree(node)
        if into is not None:
            self.entered.add(into)
            self.uses = before | {(label, place) for label, place in self.uses if place != into}
        return result

    def _lists(self, decorator: ast.expr) -> bool:
        """Whether a decorator only lists a function, as `@claim` does."""
        root = self.root(decorator)
        return root is not None and self.package.of_the_core(root.module)

    def _is_import(self, node: Any) -> bool:
        """Whether a node imports from the package: imported definitions are hashed by content, not by location."""
        if isinstance(node, ast.Import):
            return all(self.package.inside(alias.name) for alias in node.names)
        return isinstance(node, ast.ImportFrom) and self.package.inside(node.module)

    def _use(self, result: list[tuple[str, Place]]) -> None:
        if not self._silent:
            self.uses.update(result)

    def _number(self, module: str) -> int:
        return self._modules.setdefault(module, len(self._modules))

    @contextmanager
    def _inside(self, node: Any) -> Iterator[None]:
        if isinstance(node, COMPREHENSIONS):
            scope = _Scope(bound([g.target for g in node.generators]))
        else:
            given = [] if isinstance(node, ast.ClassDef) else ast.walk(node.args)
            arguments = frozenset(a.arg for a in given if isinstance(a, ast.arg))
            if isinstance(node, ast.Lambda):
                scope = _Scope(set(arguments), arguments=arguments)
            else:
                names = bound(node.body) | arguments
                scope = _Scope(names, dict(imports(node.body)), isinstance(node, ast.ClassDef), arguments)
        self._scopes.append(
            self._known.setdefault(node, scope)
        )  # a comprehension is entered once for each of its parts
        yield
        self._scopes.pop()

    @contextmanager
    def _silence(self) -> Iterator[None]:
        before, self._silent = self._silent, True
        yield
        self._silent = before
