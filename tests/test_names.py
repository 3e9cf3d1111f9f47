"""Names state what they hold, in the terms of the field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "inweights"
WORDS = {"found", "said", "told", "manner"}
KEPT = {"told", "found_inf"}
"""A key of recorded results, which older files have; and an attribute of torch. Errors of libraries keep theirs too."""


def vague(source: str) -> list[str]:
    """Identifiers of a module that contain one of `WORDS`, other than those of `KEPT`, with their lines."""
    named = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            named.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            named.append((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            named.append((node.lineno, node.name))
        elif isinstance(node, ast.Attribute):
            named.append((node.lineno, node.attr))
    parts = {name: set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")) for _, name in named}
    free = {name for name in parts if name in KEPT or name.endswith("NotFoundError")}
    return sorted({f"{line}: {name}" for line, name in named if name not in free and parts[name] & WORDS})


def test_identifiers_state_what_they_hold() -> None:
    assert {str(p.relative_to(SRC)): v for p in SRC.rglob("*.py") if (v := vague(p.read_text(encoding="utf-8")))} == {}


def test_the_guard_of_names_can_fail() -> None:
    assert vague("def told_to(said): return said.foundHere") == ["1: foundHere", "1: said", "1: told_to"]
    assert vague("class Found: ...") == ["1: Found"]
    assert vague("foundation = entry.told + manners") == []
