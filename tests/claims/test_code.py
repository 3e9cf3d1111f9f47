"""The hash of a claim's program: what makes a recorded verdict stale, and what does not."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from inweights.claims import Trial, _trial, load_all
from inweights.claims._code import program

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

def lazily():
    from inweights.claims.made_other import fit
    return fit(1)

def measure(trial):
    PHASES, PLAIN.go(), RAISED, ADDED, decorated()
    return (lambda: helper(trial))() + made_other.fit(1)
"""


@pytest.fixture
def hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Of a function of a made-up module of the ledger, which may use another one."""
    times = iter(range(100))

    def make(text: str, other: str = OTHER, name: str = "measure") -> str:
        folder = tmp_path / str(next(times))
        folder.mkdir()
        for file, content in (("made_other", other), ("made_up", text)):
            (folder / f"{file}.py").write_text(content)
            spec = spec_from_file_location(f"inweights.claims.{file}", folder / f"{file}.py")
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            monkeypatch.setitem(sys.modules, spec.name, module)
            monkeypatch.setattr(f"inweights.claims.{file}", module, raising=False)
            spec.loader.exec_module(module)
        linecache.checkcache()
        return program(getattr(module, name))

    return make


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
        ("\nclass Plain", "\n# a comment\n\nclass Plain", True),
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
def test_a_program_is_all_that_it_is_made_of(old: str, new: str, same: bool, hashed: Callable[..., str]) -> None:
    assert old in MADE_UP
    assert (hashed(MADE_UP) == hashed(MADE_UP.replace(old, new, 1) if old else MADE_UP)) is same


@pytest.mark.parametrize("name", ["measure", "lazily"])
@pytest.mark.parametrize(
    ("old", "new", "same"),
    [("RIDGE = 0.3", "RIDGE = 0.4", False), ("RIDGE * x", "RIDGE + x", False), ("UNUSED = 1", "UNUSED = 2", True)],
)
def test_a_program_reaches_through_modules(
    name: str, old: str, new: str, same: bool, hashed: Callable[..., str]
) -> None:
    """Imported at the top and then `made_other.fit`, or imported inside of a function."""
    assert (hashed(MADE_UP, name=name) == hashed(MADE_UP, OTHER.replace(old, new), name)) is same


def test_every_program_has_the_trial_that_it_is_given(
    hashed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = "def measure(trial):\n    return 1\n"
    before = hashed(alone)
    assert hashed(alone) == before

    class Other(Trial):
        """It draws other numbers."""

        def generator(self) -> None:  # type: ignore[override]
            raise AssertionError

    monkeypatch.setattr(_trial, "Trial", Other)
    assert hashed(alone) != before


def test_programs_are_the_same_in_every_process() -> None:
    ids = ["akyurek-phases", "mazzawi-words", "dherin-theorem"]
    text = f"from inweights.claims import load_all\nprint(*(load_all()[id].source for id in {ids}))"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=os.environ | {"PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [load_all()[id].source for id in ids]
