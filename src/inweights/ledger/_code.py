"""Hashes of what results depend on: code, the versions of its libraries, and trained models.

Code is hashed by its syntax tree and not by its location, so that moving a module or renaming a private one invalidates
neither cached trials nor recorded results.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from inweights.ledger._package import Package, Place
from inweights.ledger._reach import Reach, Reached


def program(measure: Callable[..., Any]) -> str:
    """Hash of a claim's function, of the methods of `Trial` that it uses, and of all definitions in the ledger and the
    papers that these reach. A verdict recorded for another program is stale."""
    return _hash(_reached(measure).ledger)


def below(measure: Callable[..., Any]) -> str:
    """Hash of all definitions that a claim's function reaches below the ledger. A difference from the recorded hash is
    only remarked: it does not make a verdict stale."""
    return _hash(_reached(measure).below)


def code(function: Callable[..., Any]) -> str:
    """Hash of all definitions that a function reaches, in any subpackage."""
    return _hash(_reached(function).whole)


def made_by(function: Callable[..., Any], needs: Sequence[str] = ()) -> str:
    """Hash of everything that a function's numbers depend on except its settings: the code, the trained models, and the
    versions of torch and transformers."""
    return _hash([code(function), models(needs), version("torch"), version("transformers")])


@cache
def judging() -> str:
    """Hash of the code that derives verdicts from numbers."""
    from inweights.ledger._criteria import Criteria
    from inweights.ledger._judge import judge  # imported here: they import this file

    return _hash(_package().of(_place(judge), _place(Criteria), through_core=True).ledger)


@cache
def _package() -> Reach:
    from inweights.ledger._trial import Trial  # imported here: it imports this file

    return Reach(Package(Path(str(files("inweights"))), _place(Trial)))


@cache
def _reached(function: Callable[..., Any]) -> Reached:
    function = inspect.unwrap(function)
    reach, place = _package(), _place(function)
    given = reach.package.given
    if place.module in reach.package.modules:
        return reach.of(place, *([given] if given and reach.package.of_the_ledger(place.module) else []))
    source = textwrap.dedent(inspect.getsource(function))
    return reach.of_outside(place.name, ast.parse(source).body, given)


def _place(definition: Any) -> Place:
    """The module and top-level name of a definition; for a nested function, those of the enclosing one."""
    return Place(definition.__module__, definition.__qualname__.partition(".")[0])


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]


def models(names: Sequence[str]) -> str:
    """Hash of trained models, by recipe: those of the zoo with all their seeds, and SmolLM2."""
    digest = hashlib.sha256()
    for path in sorted(Path(str(files("inweights.lab"))).glob("zoo/*.safetensors")):
        if path.stem.partition("@")[0] in names:
            digest.update(path.name.encode() + _content(path, path.stat().st_mtime_ns, path.stat().st_size))
    if "smollm2" in names:  # the download is checked against this hash
        from inweights.models import SMOLLM2

        digest.update(SMOLLM2.sha256.encode())
    return digest.hexdigest()[:16]


@cache
def _content(path: Path, changed: int, size: int) -> bytes:
    """The SHA-256 digest of a file, computed once per process, as many claims need it."""
    return hashlib.sha256(path.read_bytes()).digest()
