"""What a claim reaches below the ledger, by all kinds of references, independent of locations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from made_up_trial import TRIAL

Reach = Callable[..., tuple[str, str]]

# A claim that reaches into other parts of the package, in the ways in which code does.
FILES = {
    "__init__": "",
    "papers/__init__": "",
    "papers/_trial": TRIAL,
    "papers/helper": "def twice(x):\n    return 2 * x\n",
    "papers/reaches": """
from inweights.papers import helper
from inweights.lab import _tasks, _kinds
from inweights.theory._sums import total

def measure(trial) -> "Trial":
    return helper.twice(total(1)) + _tasks.TASKS.make("one") + _kinds.ask(2)

def alone(trial):
    return total(1)

def trained(trial):
    return trial.trained("one")
""",
    "theory/__init__": "from inweights.theory._sums import total as total\n",
    "theory/_sums": """
SCALE, UNUSED = 2, 1

def total(x, start=SCALE):
    return Sums(x).all(start)

class Base:
    def first(self):
        return 1

class Sums(Base):
    def all(self, start):
        return self.first() + start

def not_asked_for(x):
    return x
""",
    "lab/__init__": "",
    "lab/_registry": """
class Registry:
    def __init__(self):
        self.kinds = {}

    def __call__(self, name):
        return lambda kind: self.kinds.setdefault(name, kind)

    def make(self, name):
        return self.kinds[name]()
""",
    "lab/_tasks": "from inweights.lab._registry import Registry\n\nTASKS: Registry = Registry()\n",
    "lab/_linear": """
from inweights.lab._tasks import TASKS

@TASKS("one")
class One:
    size = 3

class Two:
    size = 4

TASKS.kinds["two"] = Two
""",
    "lab/_kinds": """
from functools import singledispatch

@singledispatch
def ask(x):
    return x
""",
    "lab/_more": """
from inweights.lab._kinds import ask

@ask.register
def _(x: int):
    return x + 1
""",
    "lab/_read": """
from pathlib import Path

RECIPES = Path(__file__).parent / "recipes"

def read(name):
    return (RECIPES / name).read_text()
""",
    "lab/recipes/one.toml": "steps = 1\n",
}


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "same"),
    [
        ("measure", "theory/_sums", "self.first() + start", "self.first() - start", False),
        ("measure", "theory/_sums", "return 1", "return 2", False),
        ("measure", "theory/_sums", "SCALE, UNUSED = 2, 1", "SCALE, UNUSED = 3, 1", False),
        ("measure", "theory/_sums", "SCALE, UNUSED = 2, 1", "SCALE, UNUSED = 2, 2", True),
        ("measure", "theory/_sums", "start=SCALE", "start=2 * SCALE", False),
        ("measure", "theory/_sums", "class Sums(Base)", "class Sums", False),
        ("measure", "theory/_sums", "return x\n", "return -x\n", True),
        ("measure", "lab/_linear", "size = 3", "size = 5", False),  # of a registry, all that is entered
        ("measure", "lab/_linear", "size = 4", "size = 5", False),
        ("measure", "lab/_linear", '"two"', '"three"', False),
        ("measure", "lab/_registry", "self.kinds[name]()", "self.kinds[name](1)", False),
        ("measure", "lab/_more", "x + 1", "x + 2", False),  # a form of a function for one type
        ("alone", "lab/_linear", "size = 3", "size = 5", True),
        ("measure", "lab/recipes/one.toml", "steps = 1", "steps = 2", True),
        ("trained", "lab/recipes/one.toml", "steps = 1", "steps = 2", False),
        ("trained", "lab/recipes/one.toml", "steps = 1", "steps=1  # one", True),
        ("trained", "lab/_read", "read_text()", "read_bytes()", False),
    ],
)
def test_code_below_has_a_separate_hash(name: str, file: str, old: str, new: str, same: bool, reach: Reach) -> None:
    assert old in FILES[file]
    before = reach(FILES, name, "papers.reaches")
    after = reach(FILES | {file: FILES[file].replace(old, new)}, name, "papers.reaches")
    assert before[0] == after[0]
    assert (before[1] == after[1]) is same


def moved(files: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The same package with a module elsewhere, and all imports of it rewritten."""
    was, now = (path.rpartition("/") for path in (old, new))
    result = {}
    for file, text in files.items():
        text = text.replace(f"inweights.{old.replace('/', '.')} ", f"inweights.{new.replace('/', '.')} ")
        for line in re.findall(rf"from inweights.{was[0]} import .*\b{was[2]}\b.*", text):
            others = [n for n in line.partition("import ")[2].split(", ") if n != was[2]]
            lines = [f"from inweights.{was[0]} import {', '.join(others)}"] if others else []
            text = text.replace(line, "\n".join([*lines, f"from inweights.{now[0]} import {now[2]}"]))
            text = re.sub(rf"\b{was[2]}\.", f"{now[2]}.", text)
        result[new if file == old else file] = text
    return result | {f"{now[0]}/__init__": ""} if f"{now[0]}/__init__" not in result else result


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("theory/_sums", "theory/_adding"),
        ("theory/_sums", "algebra/_sums"),
        ("lab/_tasks", "lab/_names"),
        ("lab/_tasks", "tasks/_tasks"),
        ("lab/_linear", "tasks/_linear"),
        ("lab/_kinds", "theory/_kinds"),
        ("papers/_trial", "ledger/_trial"),
        ("papers/helper", "papers/another"),
        ("papers/reaches", "ledger/reaches"),
    ],
)
def test_moving_a_module_changes_nothing(old: str, new: str, reach: Reach) -> None:
    ledger, after = ("ledger", "papers"), moved(FILES, old, new)
    assert after.keys() != FILES.keys()
    assert not any(f"{old.replace('/', '.')} " in text for text in after.values())
    there = (new if old == "papers/reaches" else "papers/reaches").replace("/", ".")
    for name in ("measure", "trained"):
        before = reach(FILES, name, "papers.reaches", ledger=ledger)
        assert before == reach(after, name, there, ledger=ledger)
