"""Hashes of what results hang on: code, the versions that it runs on, and trained models.

Code is hashed by what it means and not by where it stands, so that moving a module or renaming a private one changes
nothing: neither what is in the cache of trials, nor what is recorded.
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
    """Of a claim's function, of what it asks of its `Trial`, and of all that these reach in the ledger. A verdict that
    was recorded for another program is stale."""
    return _hash(_reached(measure).ledger)


def below(measure: Callable[..., Any]) -> str:
    """Of all that a claim's function reaches below the ledger. That another one was recorded is only remarked."""
    return _hash(_reached(measure).below)


def code(function: Callable[..., Any]) -> str:
    """Of all that a function reaches, wherever it is."""
    return _hash(_reached(function).whole)


def made_by(function: Callable[..., Any], needs: Sequence[str] = ()) -> str:
    """Of all that its numbers hang on but its settings: the code, the trained models, and the versions that it runs
    on."""
    return _hash([code(function), models(needs), version("torch"), version("transformers")])


@cache
def judging() -> str:
    """Of the code that makes verdicts of numbers."""
    from inweights.ledger._criteria import Criteria
    from inweights.ledger._judge import judge  # they need this file themselves

    return _hash(_package().of(_place(judge), _place(Criteria), through_core=True).ledger)


@cache
def _package() -> Reach:
    from inweights.ledger._trial import Trial  # it needs this file itself

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
    """Of a function inside of another one, that of the other one."""
    return Place(definition.__module__, definition.__qualname__.partition(".")[0])


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]


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
