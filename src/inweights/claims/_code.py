"""Hashes of the code that results hang on."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

LEDGER = "inweights.claims"
ROOMS = ("theory", "blocks", "models", "fold", "data", "lab")
# What judges, keeps and lists results does not change what a trial finds.
CORE = (
    "init", "claim", "code", "criteria", "json", "judge", "keep", "ledger", "made_with", "papers", "remarks",
    "side_by_side",
)  # fmt: skip


@cache
def room(name: str) -> str:
    """Of a room of the package, trained models included."""
    digest = hashlib.sha256()
    home = Path(str(files(f"inweights.{name}")))
    for path in sorted(p for p in home.rglob("*") if p.suffix in (".py", ".toml", ".txt", ".safetensors")):
        digest.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def rooms() -> dict[str, str]:
    """Of the code of each room below the ledger, as it is told in records: trained models are told by `models`, and
    comments, docstrings and the layout of lines change nothing that is measured."""
    return {name: _meaning(Path(str(files(f"inweights.{name}")))) for name in ROOMS}


@cache
def judging() -> str:
    """Of the code that makes verdicts of numbers."""
    return _meaning(Path(__file__).parent, "_judge.py")


def _meaning(home: Path, which: str = "*") -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in home.rglob(which) if p.suffix in (".py", ".toml", ".txt")):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            text = repr(_skeleton(ast.parse(text)))
        elif path.suffix == ".toml":
            text = repr(tomllib.loads(text))
        digest.update(f"{path.relative_to(home).as_posix()}\n{text}\n".encode())
    return digest.hexdigest()[:16]


def _skeleton(node: Any) -> Any:
    """A syntax tree as plain values, without strings that stand alone. What is empty is left out: later versions of
    Python have more such fields, and the hash should be the same there."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name != "kind")
        return type(node).__name__, [(n, _skeleton(v)) for n, v in fields if v is not None and v != []]
    if isinstance(node, list):
        return [_skeleton(n) for n in node if not _stands_alone(n)]
    return node


def _stands_alone(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def trials() -> str:
    """Of everything that trials of claims are made of: all papers' claims, for they share code, and the rooms below."""
    digest = hashlib.sha256("".join(map(room, ROOMS)).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem.strip("_") not in CORE:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def made_by() -> str:
    """Of all that the numbers of a trial hang on but its settings: the code, and the versions that it runs on."""
    text = " ".join([trials(), version("torch"), version("transformers")])
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def program(measure: Callable[..., Any]) -> str:
    """Of a claim's function, of the `Trial` that it is given, and of all that these are made of in the ledger: what
    they name, and what that names. A verdict that was recorded for another program is stale."""
    from inweights.claims._trial import Trial  # it needs this file itself

    parts = _Parts()
    parts.function(inspect.unwrap(measure))
    parts.kind(Trial)
    return hashlib.sha256("\n".join(sorted(parts.lines)).encode()).hexdigest()[:16]


class _Parts:
    """What a program is made of, as lines that are the same in every process: no addresses, no order of sets."""

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self._code: set[Any] = set()
        self._told: dict[int, tuple[Any, str]] = {}  # by id; with the value, so that no other one gets its id

    def code(self, value: Any) -> None:
        """A function or a class, if it is of the ledger; also inside of decorators."""
        while value is not None:
            if isinstance(value, type):
                if _of_the_ledger(value.__module__):
                    self.kind(value)
                return
            if isinstance(value, FunctionType) and _of_the_ledger(value.__globals__.get("__name__", "")):
                self.function(value)
            value = getattr(value, "__wrapped__", None)

    def function(self, function: FunctionType) -> None:
        code = function.__code__
        if function in self._code or code.co_filename.startswith("<"):  # such are written by `dataclass`
            return
        self._code.add(function)
        name = f"{function.__module__}.{function.__qualname__}"
        self.lines.add(f"{name}: {inspect.getsource(code)}")
        given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *_enclosed(function)]
        self.lines.add(f"{name} is given {self.told(given)}")
        self.names(list(_names(code)), function.__globals__)

    def kind(self, kind: type) -> None:
        if kind in self._code:
            return
        self._code.add(kind)
        name = f"{kind.__module__}.{kind.__qualname__}"
        self.lines.add(f"{name}: {_source(kind)}")
        for base in kind.__bases__:
            self.code(base)
        for each in fields(kind) if is_dataclass(kind) else ():
            self.told([each.default, each.default_factory])
        for member, value in vars(kind).items():
            if isinstance(value, property):
                self.told([value.fget, value.fset])
            elif isinstance(value, cached_property):
                self.code(value.func)
            elif _is_setting(value) and not member.startswith("__"):
                self.lines.add(f"{name}.{member}: {self.told(value)}")
            else:
                self.code(value)

    def names(self, names: Sequence[str], there: Mapping[str, Any]) -> None:
        """What names stand for in a module. Of a module among them, all that it has of these names."""
        for used in names:
            value = there.get(used)
            if used.startswith(LEDGER):  # imported inside of a function
                value = import_module(used)
            if isinstance(value, ModuleType):
                if value.__name__ == LEDGER:
                    inside = {n: f"{LEDGER}.{n}" for n in names if Path(__file__).with_name(f"{n}.py").is_file()}
                    self.names([n for n in names if n != used], {n: import_module(m) for n, m in inside.items()})
                elif _of_the_ledger(value.__name__):
                    self.names([n for n in names if n != used], vars(value))
            elif _is_setting(value):
                self.lines.add(f"{there['__name__']}.{used}: {self.told(value)}")
            else:
                self.code(value)

    def told(self, value: Any) -> str:
        """A value as text. What is of the ledger in it becomes part of the program."""
        if id(value) not in self._told:
            self._told[id(value)] = value, "…"  # it may hold itself
            self._told[id(value)] = value, self._text(value)
        return self._told[id(value)][1]

    def _text(self, value: Any) -> str:
        kind = type(value).__qualname__
        if isinstance(value, dict):
            return f"{kind}({', '.join(f'{self.told(k)}: {self.told(v)}' for k, v in value.items())})"
        if isinstance(value, list | tuple | set | frozenset):
            inside = [self.told(v) for v in value]
            return f"{kind}({', '.join(sorted(inside) if isinstance(value, set | frozenset) else inside)})"
        if isinstance(value, partial):
            return f"{kind}{self.told((value.func, value.args, value.keywords))}"
        if isinstance(value, MethodType):
            return f"{value.__name__} of {self.told(value.__self__)}"
        self.code(value if callable(value) and hasattr(value, "__qualname__") else type(value))
        if _has_parts(value):
            own = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else vars(value)
            return f"{kind}({', '.join(f'{n}={self.told(v)}' for n, v in own.items())})"
        return str(getattr(value, "__qualname__", "")) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@cache
def _source(kind: type) -> str:
    """Cached, for it is slow to find, and every program has `Trial`."""
    return inspect.getsource(kind)


def _names(code: CodeType) -> Iterator[str]:
    """What a function names, also in the functions inside of it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _enclosed(function: FunctionType) -> Iterator[Any]:
    """What a function inside of another one has of that one."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # nothing is in it yet
            yield cell.cell_contents


def _is_setting(value: Any) -> bool:
    plain = isinstance(value, int | float | str | bytes | tuple | range | list | dict | set | frozenset)
    return plain or isinstance(value, partial | MethodType) or _has_parts(value)


def _has_parts(value: Any) -> bool:
    """Whether it is a plain instance. Others may fill attributes as they are used: their `repr` tells them."""
    if isinstance(value, type | FunctionType | ModuleType):
        return False
    return is_dataclass(value) or (_of_the_ledger(type(value).__module__) and hasattr(value, "__dict__"))


def _of_the_ledger(module: str) -> bool:
    room, _, file = str(module).rpartition(".")
    return room == LEDGER and file.strip("_") not in CORE


def models(names: Sequence[str]) -> str:
    """Of trained models, by recipe: those of the zoo with all their seeds, and the one that is fetched."""
    digest = hashlib.sha256()
    for path in sorted(Path(str(files("inweights.lab"))).glob("zoo/*.safetensors")):
        if path.stem.partition("@")[0] in names:
            digest.update(path.name.encode() + _content(path, path.stat().st_mtime_ns, path.stat().st_size))
    if "smollm2" in names:  # it is checked against its hash when it is fetched
        from inweights.models import SMOLLM2

        digest.update(SMOLLM2.sha256.encode())
    return digest.hexdigest()[:16]


@cache
def _content(path: Path, changed: int, size: int) -> bytes:
    """Read once for a process, though many claims need it."""
    return hashlib.sha256(path.read_bytes()).digest()
