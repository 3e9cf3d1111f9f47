"""Registration: hashes of what a claim is judged by, recorded before it is run, so that no later change goes unseen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from inweights._errors import InputError, Problems
from inweights._files import write_atomic
from inweights._read import CACHE_LIMIT, read_bytes
from inweights.lab.training import read, recipe_names
from inweights.ledger._claim import CLAIMS, Claim
from inweights.ledger._code import program
from inweights.ledger._criteria import criteria

REGISTERED = "registered.jsonl"
STATED = {
    "change": ("was", "now", "reason", "seen", "seeds"),
    "wording": ("reason",),
    "refactoring": ("reason", "proof"),
}
"""What an entry of each kind has to state; the first registration of a claim states nothing."""


class Registered(BaseModel):
    """One registration of a claim; the last one of a claim counts.

    - `kind`: the first registration; a change of what is judged or measured; other words for the same; other code with
      the same numbers.
    - `parts`: the hashes of criterion, controls, settings, recipes and program.
    - `old`: the verdict before a change. `was`, `now`, `reason`: the change. `seen`: the results known by then.
      `seeds`: the new seeds, or why there are none.
    - `proof`: of a refactoring, why the numbers are equal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    date: str
    kind: Literal["first", "change", "wording", "refactoring"]
    parts: dict[str, str] = {}
    old: str = ""
    was: str = ""
    now: str = ""
    reason: str = ""
    seen: str = ""
    seeds: str = ""
    proof: str = ""


def parts(claim: Claim) -> dict[str, str]:
    """The hashes of all parts of a claim that a verdict depends on."""
    return {
        "criterion": _digest(repr(criteria()[claim.id])),
        "control": _digest(claim.control, claim.rival),
        "settings": _digest(claim.sentence, claim.measured, claim.settings, claim.precondition),
        "recipes": _digest(*(_recipe(name) for name in claim.models if name in recipe_names())),
        "program": program(claim.measure),
    }


@cache
def _recipe(name: str) -> str:
    return read(name).model_dump_json(exclude={"note", "seed"})


def registration(claim: Claim) -> str:
    """One hash of all parts."""
    return _digest(json.dumps(parts(claim)))


def registered(folder: Path) -> list[Registered]:
    """All registrations in a folder, oldest first."""
    path = folder / REGISTERED
    data = read_bytes(path, "The file", CACHE_LIMIT, "restore it from the history") if path.is_file() else b""
    try:
        return [Registered.model_validate_json(line) for line in data.splitlines()]
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged, restore it from the history: {error}") from None


def unregistered(folder: Path) -> dict[str, list[str]]:
    """The claims that are not as they were last registered, each with the parts that differ."""
    last = {entry.claim: entry.parts for entry in registered(folder)}
    now = {id: parts(claim) for id, claim in CLAIMS.items()}
    differ = {id: [part for part in each if last.get(id, {}).get(part) != each[part]] for id, each in now.items()}
    return {id: names for id, names in differ.items() if names}


def register(folder: Path, entries: Sequence[Registered]) -> None:
    """Appends registrations of claims as they are now. Each has to state what its kind requires."""
    problems, before = Problems(), registered(folder)
    known = {entry.claim for entry in before}
    for entry in entries:
        problems.unless(entry.claim in CLAIMS, f"There is no claim {entry.claim!r}.")
        problems.unless(entry.kind != "first" or entry.claim not in known, f"{entry.claim} is registered already.")
        for field in STATED.get(entry.kind, ()):
            problems.unless(bool(getattr(entry, field)), f"{entry.claim}: a {entry.kind} has to state `{field}`.")
    problems.stop()
    made = [entry.model_copy(update={"parts": parts(CLAIMS[entry.claim])}) for entry in entries]
    folder.mkdir(parents=True, exist_ok=True)
    lines = [entry.model_dump_json(exclude_defaults=True) for entry in (*before, *made)]
    write_atomic(folder / REGISTERED, "".join(f"{line}\n" for line in lines))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
