"""Hashes of the code that results hang on."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

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
    """Of a claim's function, and of all that it is made of: functions, classes and plain settings of the ledger that it
    names, and that those name. A verdict that was recorded for another program is stale."""
    parts: dict[str, str] = {}
    waiting: list[Any] = [measure]
    while waiting:
        part = inspect.unwrap(waiting.pop())
        name = f"{part.__module__}.{part.__qualname__}"
        if name in parts:
            continue
        parts[name] = inspect.getsource(part)
        for function in [part] if isinstance(part, FunctionType) else map(inspect.unwrap, vars(part).values()):
            if not isinstance(function, FunctionType):
                continue
            for used in _names(function.__code__):
                value = function.__globals__.get(used)
                if isinstance(value, int | float | str | tuple | range | list | dict | set | frozenset):
                    plain = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
                    parts[f"{function.__module__}.{used}"] = re.sub(r" at 0x[0-9a-f]+", "", repr(plain))
                elif callable(value) and _of_the_ledger(inspect.unwrap(value)):
                    waiting.append(value)
    return hashlib.sha256("\n".join(f"{k}: {parts[k]}" for k in sorted(parts)).encode()).hexdigest()[:16]


def _names(code: CodeType) -> Iterator[str]:
    """What a function names, also in the functions inside of it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _of_the_ledger(value: Any) -> bool:
    room, _, file = str(getattr(value, "__module__", "")).rpartition(".")
    return room == "inweights.claims" and file.strip("_") not in CORE and isinstance(value, FunctionType | type)


def models(names: Sequence[str]) -> str:
    """Of trained models, by recipe: those of the zoo with all their seeds, and the one that is fetched."""
    digest = hashlib.sha256()
    for path in sorted(Path(str(files("inweights.lab"))).glob("zoo/*.safetensors")):
        if path.stem.partition("@")[0] in names:
            digest.update(path.name.encode() + _content(path, path.stat().st_mtime_ns, path.stat().st_size))
    if "smollm2" in names:  # it is checked against its hash when it is fetched
        from inweights.models._load import SMOLLM2

        digest.update(SMOLLM2.sha256.encode())
    return digest.hexdigest()[:16]


@cache
def _content(path: Path, changed: int, size: int) -> bytes:
    """Read once for a process, though many claims need it."""
    return hashlib.sha256(path.read_bytes()).digest()
