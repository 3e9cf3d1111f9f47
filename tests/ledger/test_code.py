"""The hash of a claim's program: what makes a recorded verdict stale, and what does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_up_trial import TRIAL

Reach = Callable[..., tuple[str, str]]

OTHER = """
RIDGE = 0.3
UNUSED = 1

def fit(x):
    return RIDGE * x
"""

MADE_UP = """
from dataclasses import dataclass, field
from functools import cache, partial, wraps

from inweights.papers import made_other
from inweights.papers._claim import claim

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
    from inweights.papers.made_other import fit
    return fit(1)

@claim("one", cost=1)
def measure(trial):
    'A sentence.'
    trial.draw()
    PHASES, PLAIN.go(), RAISED, ADDED, decorated()
    return (lambda: helper(trial))() + made_other.fit(1)
"""

CLAIM = "def claim(id, cost):\n    return lambda measure: measure\n"

FILES = {
    "__init__": "",
    "papers/__init__": "",
    "papers/_claim": CLAIM,
    "papers/_trial": TRIAL,
    "papers/made_other": OTHER,
    "papers/made_up": MADE_UP,
}


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
def test_a_program_is_all_that_it_is_made_of(old: str, new: str, same: bool, reach: Reach) -> None:
    assert old in MADE_UP
    other = FILES | {"papers/made_up": MADE_UP.replace(old, new, 1) if old else MADE_UP}
    assert (reach(FILES) == reach(other)) is same


@pytest.mark.parametrize("name", ["measure", "lazily"])
@pytest.mark.parametrize(
    ("old", "new", "same"),
    [("RIDGE = 0.3", "RIDGE = 0.4", False), ("RIDGE * x", "RIDGE + x", False), ("UNUSED = 1", "UNUSED = 2", True)],
)
def test_a_program_reaches_through_modules(name: str, old: str, new: str, same: bool, reach: Reach) -> None:
    """Imported at the top and then `made_other.fit`, or imported inside of a function."""
    other = FILES | {"papers/made_other": OTHER.replace(old, new)}
    assert (reach(FILES, name) == reach(other, name)) is same


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("seed: int = 0", "seed: int = 1", False),
        ("self.numbers(1)", "self.numbers(2)", False),
        ("return n", "return -n", False),  # which another method asks for
        ("return read(name)", "return read(2 * name)", True),  # which this claim does not ask for
    ],
)
def test_a_program_has_what_it_asks_of_its_trial(old: str, new: str, same: bool, reach: Reach) -> None:
    assert old in TRIAL
    other = FILES | {"papers/_trial": TRIAL.replace(old, new)}
    assert (reach(FILES) == reach(other)) is same


def test_two_definitions_of_one_name_are_not_taken_for_each_other(reach: Reach) -> None:
    one, two = (f"WIDTH = {3}\n\ndef {n}():\n    return WIDTH\n" for n in ("f", "g"))
    text = "from inweights.papers import one, two\n\ndef measure(trial):\n    return one.{}() - two.{}()\n"
    files = FILES | {"papers/made_up": text.format("f", "g"), "papers/one": one, "papers/two": two.replace("3", "4")}
    swapped = files | {"papers/one": one.replace("3", "4"), "papers/two": two}
    assert reach(files) != reach(swapped)
    twins = {"papers/one": one, "papers/two": one.replace("3", "4"), "papers/made_up": text.format("f", "f")}
    turned = text.replace("one.{}() - two.{}()", "two.{}() - one.{}()").format("f", "f")
    assert reach(FILES | twins) != reach(FILES | twins | {"papers/made_up": turned})


def test_names_inside_of_functions_are_their_own(reach: Reach) -> None:
    text = """
def helper():
    return 1

def measure(trial, *, helper=2):
    return [helper for helper in range(helper)]
"""
    files = FILES | {"papers/made_up": text}
    other = FILES | {"papers/made_up": text.replace("return 1", "return 2")}
    assert reach(files) == reach(other)
    asked = text.replace("range(helper)", "range(3)").replace("helper=2", "n=2") + "    return helper()\n"
    files, other = (FILES | {"papers/made_up": t} for t in (asked, asked.replace("return 1", "return 2")))
    assert reach(files) != reach(other)


LOCALS = """
def measure(trial):
    one, two = trial.draw(), 3
    total = sum(one - two for one, two in [(one, two)])
    def inner(x):
        nonlocal total
        total = total + x
    inner(two)
    return total - one
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("two", "other", True),
        ("one, two = trial", "two, one = trial", False),  # the names are exchanged in one place alone
        ("for one, two in", "for two, one in", False),
        ("return total - one", "return one - total", False),
        ("return total - one", "return total - two", False),
        ("total", "whole", False),  # named in a nonlocal statement
        ("(x):", "(x, y=1):", False),
    ],
)
def test_names_of_local_variables_are_not_hashed(reach: Reach, old: str, new: str, same: bool) -> None:
    files = FILES | {"papers/made_up": LOCALS}
    renamed = files | {"papers/made_up": LOCALS.replace(old, new)}
    assert renamed != files
    assert (reach(files) == reach(renamed)) is same
