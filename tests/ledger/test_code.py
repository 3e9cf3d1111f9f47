"""The hash of a claim's program: what makes a recorded verdict stale, and what does not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from inweights.claims import _code
from inweights.ledger._package import Package, Place
from inweights.ledger._reach import Reach

OTHER = """
RIDGE = 0.3
UNUSED = 1

def fit(x):
    return RIDGE * x
"""

MADE_UP = """
from dataclasses import dataclass, field
from functools import cache, partial, wraps

from inweights.claims import made_other
from inweights.ledger._claim import claim

WIDTH, NOISE, RATE, LOSS, POWER, SHIFT = 3, [1], 0.1, 2, 4, 5

def start():
    return 7

def twice(measured):
    @wraps(measured)
    def inner(*args):
        return 2 * measured(*args)
    return inner

class Base:
    def name(self):
        return "base"

class Part(Base):
    scale = LOSS

    def size(self):
        return WIDTH

    @property
    def length(self):
        return 11

@dataclass
class Step:
    rate: float
    begin: int = field(default_factory=start)

    def weights(self):
        return 2 * self.rate

class Plain:
    def __init__(self, power):
        self.power = power

    def go(self):
        return "go"

def raised(by):
    def inner(x):
        return x ** by
    return inner

def added(x, y):
    return x + y

PHASES = {"one": [Step(0.5)], "two": (lambda x: x + 21, lambda x: x + 22)}
PLAIN = Plain(POWER)
RAISED = [raised(31)]
ADDED = partial(added, SHIFT)
NAMES = {"ab", "cd", "ef", "gh"}

@cache
def helper(trial, rate=RATE):
    return Part().size() + NOISE[0] + len(NAMES)

@twice
def decorated():
    return 1.5

def other(trial):
    return 1

def lazily(trial):
    from inweights.claims.made_other import fit
    return fit(1)

@claim("one", cost=1)
def measure(trial):
    'A sentence.'
    trial.draw()
    PHASES, PLAIN.go(), RAISED, ADDED, decorated()
    return (lambda: helper(trial))() + made_other.fit(1)
"""

TRIAL = """
from dataclasses import dataclass

@dataclass
class Trial:
    seed: int = 0

    def draw(self):
        return self.numbers(1)

    def numbers(self, n):
        return n

    def trained(self, name):
        from inweights.lab._read import read
        return read(name)
"""

CLAIM = "def claim(id, cost):\n    return lambda measure: measure\n"

FILES = {
    "__init__": "",
    "claims/__init__": "",
    "claims/_claim": CLAIM,
    "claims/_trial": TRIAL,
    "claims/made_other": OTHER,
    "claims/made_up": MADE_UP,
}

# A claim that reaches into other parts of the package, in the ways in which code does.
BELOW = FILES | {
    "claims/reaches": """
from inweights.lab import _tasks, _kinds
from inweights.theory._sums import total

def measure(trial) -> "Trial":
    return total(1) + _tasks.TASKS.make("one") + _kinds.ask(2)

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


def reach(
    home: Path, files: Mapping[str, str], name: str = "measure", module: str = "claims.made_up", **more: object
) -> tuple[str, str]:
    """The hashes of a function of a made-up package: of what it reaches in the ledger, and below it."""
    shutil.rmtree(home, ignore_errors=True)
    for file, text in files.items():
        path = home / "inweights" / (file if "." in file else f"{file}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (trial,) = (file.replace("/", ".") for file in files if file.endswith("_trial"))
    given = Place(f"inweights.{trial}", "Trial")
    package = Package(home / "inweights", given, **more)  # type: ignore[arg-type]
    found = Reach(package).of(Place(f"inweights.{module}", name), given)
    return _code._hash(found.ledger), _code._hash(found.below)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("return (lambda: helper(trial))()", "return (lambda: 2 * helper(trial))()", False),
        ("return Part().size() + NOISE[0]", "return Part().size()", False),
        ("return WIDTH", "return WIDTH + 1", False),
        ("SHIFT = 3, [1]", "SHIFT = 4, [1]", False),
        ("SHIFT = 3, [1]", "SHIFT = 3, [2]", False),
        ("return 1\n", "return 2\n", True),  # nobody asks for it
        # What says nothing: comments, docstrings, layout, and the decorator that lists a claim.
        ("\nclass Plain", "\n# a comment\n\nclass Plain", True),
        ("    trial.draw()", "    # a comment\n    trial.draw()", True),
        ("A sentence.", "Another sentence.", True),
        ("    def go(self):", '    def go(self):\n        """It goes."""', True),
        ("(lambda: helper(trial))()", "(\n        lambda: helper(trial)\n    )()", True),
        ("cost=1", "cost=2", True),
        # What is inside of containers and instances.
        ("return 2 * self.rate", "return 9 * self.rate", False),
        ("Step(0.5)", "Step(0.6)", False),
        ("x + 21", "x + 20", False),
        ("lambda x: x + 22", "lambda x: x + 20", False),
        ('return "go"', 'return "gone"', False),
        ("[1], 0.1, 2, 4, 5", "[1], 0.1, 2, 3, 5", False),
        ("x ** by", "x * by", False),
        ("raised(31)", "raised(30)", False),
        ("return x + y", "return x - y", False),
        ("[1], 0.1, 2, 4, 5", "[1], 0.1, 2, 4, 6", False),
        # What functions are given, what classes are made of, and decorators.
        ("[1], 0.1, 2, 4, 5", "[1], 0.2, 2, 4, 5", False),
        ("[1], 0.1, 2, 4, 5", "[1], 0.1, 3, 4, 5", False),
        ('return "base"', 'return "basis"', False),
        ("return 7", "return 8", False),
        ("return 11", "return 12", False),
        ("2 * measured", "3 * measured", False),
        ("return 1.5", "return 2.5", False),
    ],
)
def test_a_program_is_all_that_it_is_made_of(old: str, new: str, same: bool, tmp_path: Path) -> None:
    assert old in MADE_UP
    other = FILES | {"claims/made_up": MADE_UP.replace(old, new, 1) if old else MADE_UP}
    assert (reach(tmp_path, FILES) == reach(tmp_path, other)) is same


@pytest.mark.parametrize("name", ["measure", "lazily"])
@pytest.mark.parametrize(
    ("old", "new", "same"),
    [("RIDGE = 0.3", "RIDGE = 0.4", False), ("RIDGE * x", "RIDGE + x", False), ("UNUSED = 1", "UNUSED = 2", True)],
)
def test_a_program_reaches_through_modules(name: str, old: str, new: str, same: bool, tmp_path: Path) -> None:
    """Imported at the top and then `made_other.fit`, or imported inside of a function."""
    other = FILES | {"claims/made_other": OTHER.replace(old, new)}
    assert (reach(tmp_path, FILES, name) == reach(tmp_path, other, name)) is same


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("seed: int = 0", "seed: int = 1", False),
        ("self.numbers(1)", "self.numbers(2)", False),
        ("return n", "return -n", False),  # which another method asks for
        ("return read(name)", "return read(2 * name)", True),  # which this claim does not ask for
    ],
)
def test_a_program_has_what_it_asks_of_its_trial(old: str, new: str, same: bool, tmp_path: Path) -> None:
    assert old in TRIAL
    other = FILES | {"claims/_trial": TRIAL.replace(old, new)}
    assert (reach(tmp_path, FILES) == reach(tmp_path, other)) is same


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
def test_what_is_reached_below_is_told_apart(
    name: str, file: str, old: str, new: str, same: bool, tmp_path: Path
) -> None:
    assert old in BELOW[file]
    before = reach(tmp_path, BELOW, name, "claims.reaches")
    after = reach(tmp_path, BELOW | {file: BELOW[file].replace(old, new)}, name, "claims.reaches")
    assert before[0] == after[0]
    assert (before[1] == after[1]) is same


def moved(files: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The same package with a module elsewhere, and all imports of it rewritten."""
    was, now = (path.rpartition("/") for path in (old, new))
    found = {}
    for file, text in files.items():
        text = text.replace(f"inweights.{old.replace('/', '.')} ", f"inweights.{new.replace('/', '.')} ")
        for line in re.findall(rf"from inweights.{was[0]} import .*\b{was[2]}\b.*", text):
            others = [n for n in line.partition("import ")[2].split(", ") if n != was[2]]
            lines = [f"from inweights.{was[0]} import {', '.join(others)}"] if others else []
            text = text.replace(line, "\n".join([*lines, f"from inweights.{now[0]} import {now[2]}"]))
            text = re.sub(rf"\b{was[2]}\.", f"{now[2]}.", text)
        found[new if file == old else file] = text
    return found | {f"{now[0]}/__init__": ""} if f"{now[0]}/__init__" not in found else found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("theory/_sums", "theory/_adding"),
        ("theory/_sums", "algebra/_sums"),
        ("lab/_tasks", "lab/_names"),
        ("lab/_tasks", "tasks/_tasks"),
        ("lab/_linear", "tasks/_linear"),
        ("lab/_kinds", "theory/_kinds"),
        ("claims/_trial", "ledger/_trial"),
        ("claims/made_other", "papers/another"),
        ("claims/reaches", "papers/reaches"),
    ],
)
def test_moving_a_module_changes_nothing(old: str, new: str, tmp_path: Path) -> None:
    ledger, after = ("claims", "ledger", "papers"), moved(BELOW, old, new)
    assert after.keys() != BELOW.keys()
    assert not any(f"{old.replace('/', '.')} " in text for text in after.values())
    for name, home in (("measure", "claims/reaches"), ("trained", "claims/reaches"), ("measure", "claims/made_up")):
        there = (new if home == old else home).replace("/", ".")
        before = reach(tmp_path, BELOW, name, home.replace("/", "."), ledger=ledger)
        assert before == reach(tmp_path, after, name, there, ledger=ledger)


def test_two_definitions_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    one, two = (f"WIDTH = {3}\n\ndef {n}():\n    return WIDTH\n" for n in ("f", "g"))
    text = "from inweights.claims import one, two\n\ndef measure(trial):\n    return one.{}() - two.{}()\n"
    files = FILES | {"claims/made_up": text.format("f", "g"), "claims/one": one, "claims/two": two.replace("3", "4")}
    swapped = files | {"claims/one": one.replace("3", "4"), "claims/two": two}
    assert reach(tmp_path, files) != reach(tmp_path, swapped)
    twins = {"claims/one": one, "claims/two": one.replace("3", "4"), "claims/made_up": text.format("f", "f")}
    turned = text.replace("one.{}() - two.{}()", "two.{}() - one.{}()").format("f", "f")
    assert reach(tmp_path, FILES | twins) != reach(tmp_path, FILES | twins | {"claims/made_up": turned})


def test_names_inside_of_functions_are_their_own(tmp_path: Path) -> None:
    text = """
def helper():
    return 1

def measure(trial, *, helper=2):
    return [helper for helper in range(helper)]
"""
    files = FILES | {"claims/made_up": text}
    other = FILES | {"claims/made_up": text.replace("return 1", "return 2")}
    assert reach(tmp_path, files) == reach(tmp_path, other)
    asked = text.replace("range(helper)", "range(3)").replace("helper=2", "n=2") + "    return helper()\n"
    files, other = (FILES | {"claims/made_up": t} for t in (asked, asked.replace("return 1", "return 2")))
    assert reach(tmp_path, files) != reach(tmp_path, other)
