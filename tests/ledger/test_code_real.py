"""Hashes of the real package: the same in every process and for any locations of modules, and different for other
code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import inweights
from inweights.ledger import Trial, _code
from inweights.ledger._package import CORE, LEDGER, Package, Place
from inweights.ledger._reach import Reach
from inweights.papers import load_all

HASHES = """
import sys
from inweights.papers import load_all
from inweights.ledger import _code
for id in sys.argv[1:]:
    measure = load_all()[id].measure
    print(_code.program(measure), _code.below(measure))
"""
IDS = ["note-plus-corrected", "mazzawi-words", "dherin-theorem", "akyurek-phases"]


def today() -> list[str]:
    return [f"{_code.program(c)} {_code.below(c)}" for c in (load_all()[id].measure for id in IDS)]


def test_programs_are_the_same_in_every_process() -> None:
    env = os.environ | {"PYTHONPATH": str(Path(inweights.__file__).parents[1]), "PYTHONHASHSEED": "5"}
    command = [sys.executable, "-c", HASHES, *IDS]
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines() == today()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    home = tmp_path / "inweights"
    left = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(Path(inweights.__file__).parent, home, ignore=left)
    return home


def hashes_in(home: Path) -> list[str]:
    """The hashes of real claims in another copy of the package."""
    other = Reach(Package(home, _code._place(Trial)))
    result = [other.of(_code._place(load_all()[id].measure), _code._place(Trial)) for id in IDS]
    return [f"{_code._hash(f.ledger)} {_code._hash(f.below)}" for f in result]


def test_a_real_claim_changes_with_the_theory_that_it_uses(copied: Path) -> None:
    file = copied / "theory" / "_implicit.py"
    text = file.read_text()
    file.write_text(text + "\n\ndef of_no_use(x):\n    return x\n")
    assert hashes_in(copied) == today()
    changed = re.sub(r"(def implicit_update\(.*?\) -> .*?:\n)", r"\1    more = 1\n", text, count=1, flags=re.DOTALL)
    assert changed != text
    file.write_text(changed)
    result = hashes_in(copied)
    assert [a == b for a, b in zip(result, today(), strict=True)][:3] == [True, True, False]
    assert [f.split()[0] for f in result] == [t.split()[0] for t in today()]


def test_real_claims_do_not_change_with_the_places_of_modules(copied: Path) -> None:
    """Of the theory and of the ledger under other names, and of the lab in another part of the package."""
    for old, new in (
        ("theory._update", "theory._new"),
        ("lab._draw", "blocks._draw"),
        ("papers.transmuting._words", "papers.transmuting._say"),
    ):
        (copied / f"{old.replace('.', '/')}.py").rename(copied / f"{new.replace('.', '/')}.py")
        for path in copied.rglob("*.py"):
            path.write_text(re.sub(rf"inweights\.{re.escape(old)}\b", f"inweights.{new}", path.read_text()))
    assert hashes_in(copied) == today()


def test_all_imports_of_the_package_are_understood() -> None:
    package = _code._package().package
    imports = [(name, *there) for name, module in package.modules.items() for there in module.imported.values()]
    assert [i for i in imports if package.inside(i[1]) and package.imported(*i[1:]) is None] == []


def test_what_is_set_aside_is_there() -> None:
    """A reminder for when a file of the ledger is renamed."""
    home = Path(inweights.__file__).parent
    there = {path.stem for part in LEDGER for path in (home / part).rglob("*.py")}
    assert set(CORE) <= there


def test_claims_name_the_models_that_they_ask_for() -> None:
    """As the cache of trials depends on models by these names."""
    reached, given = _code._package(), _code._place(Trial)
    trained, language = (reached.read(Place(given.module, f"Trial.{n}")).own for n in ("trained", "language_model"))
    for claim in load_all().values():
        program = _code._reached(claim.measure).own.values()
        assert trained not in program or claim.models, claim.id
        assert language not in program or "smollm2" in claim.models, claim.id
