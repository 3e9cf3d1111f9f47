"""`Plan`: what a comparison measures, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from inweights._errors import InputError, Problems, unknown
from inweights.compare._descent import Descent, Lesson
from inweights.compare._many import COUNTS, SIZES
from inweights.compare._predict import zero_shot
from inweights.compare._shots import COMPARED, Shots, shots
from inweights.compare._ways import RATES, WAYS, Way
from inweights.models import Model

OURS = ("patch", "fold")
MORE_NAMES = ("sizes", "many", "attention", "updates", "martingale")
"""Further comparisons, on request."""
CONTROL_QUERIES = 20
"""Queries of the control models: their distributions hardly depend on the query."""
FEW_ORDERS = 3
"""Orders in which a full batch is descended, where only rounding can differ."""
PATCHED = 5
"""Queries that get an exact patch of their own."""


@dataclass(frozen=True)
class Plan:
    """A comparison.

    - `task`, `demonstrations`, `queries`, `seed`: what is shown and asked; see `shots`.
    - `orders`: how many orders of the demonstrations.
    - `epochs`, `every`, `rates`: gradient descent, with a checkpoint each `every` epochs; `rates` are those of ways
      without rates of their own. `also_epochs`: fewer epochs for the ways other than `gd`; 0 for as many.
    - `ways`: names of `WAYS`, `patch` and `fold`, and of further comparisons: `sizes`, `many`, `attention`,
      `updates`, `martingale`.
    - `controls`: whether models of the same shape without training, and shuffled labels, are measured too.
    """

    task: str
    demonstrations: int = 4
    queries: int = 100
    orders: int = 10
    epochs: int = 200
    every: int = 20
    rates: tuple[float, ...] = RATES
    ways: tuple[str, ...] = ("gd",)
    controls: bool = True
    seed: int = 0
    also_epochs: int = 0

    def check(self) -> Plan:
        """The plan; raises an error that lists everything that is wrong with it."""
        problems = Problems()
        problems.unless(self.task in COMPARED, str(unknown("task", self.task, COMPARED)))
        for name in ("demonstrations", "queries", "epochs", "every"):
            problems.unless(getattr(self, name) >= 1, f"`{name}` is {getattr(self, name)}: at least 1 is needed.")
        problems.unless(self.orders >= 2, f"`orders` is {self.orders}: at least 2 are needed to compare.")
        problems.unless(
            self.demonstrations != 1, "`demonstrations` is 1, which has one order only: at least 2 are needed."
        )
        problems.unless(self.every <= self.epochs, f"`every` is {self.every}, but there are only {self.epochs} epochs.")
        problems.unless(
            0 <= self.also_epochs <= self.epochs,
            f"`also_epochs` is {self.also_epochs}: it must be at most the {self.epochs} epochs of gd, and not below 0.",
        )
        problems.unless(bool(self.rates) and min(self.rates, default=0) > 0, "`rates` must be numbers above 0.")
        problems.unless("gd" in self.ways, "`ways` must contain gd, which the others are compared with.")
        for name in self.ways:
            known = [*WAYS, *OURS, *MORE_NAMES]
            problems.unless(name in known, str(unknown("way", name, known)))
        problems.stop()
        return self

    @property
    def descents(self) -> tuple[Way, ...]:
        return tuple(WAYS[name] for name in self.ways if name in WAYS)

    def rates_of(self, way: Way) -> tuple[float, ...]:
        """The rates of a way: those of the plan, unless it has its own."""
        return self.rates if way.rates == RATES else way.rates

    def shots(self, model: Model) -> Shots:
        """The demonstrations and queries. An error if the task has too few rows for them, or for a further comparison:
        before any work, and not hours later."""
        for name, counts in (("many", COUNTS), ("sizes", SIZES)):
            try:
                if name in self.ways:
                    shots(model, self.task, max(counts), self.queries, self.seed)
            except InputError as error:
                raise InputError(f"`{name}` is not possible here: {error}") from None
        return shots(model, self.task, self.demonstrations, self.queries, self.seed)

    def epochs_of(self, way: Way) -> int:
        """The epochs of a way: those of the plan, or fewer for ways other than `gd`."""
        return self.epochs if way.name == "gd" else self.also_epochs or self.epochs

    def every_of(self, way: Way) -> int:
        """The epochs between two checkpoints of a way, which are also those of its test of orders."""
        return min(self.every, self.epochs_of(way))


@dataclass(frozen=True)
class Cost:
    """Seconds that each part of a plan is expected to take."""

    parts: dict[str, float]

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())


def _seconds(work: Callable[[], object]) -> float:
    """How long some work takes the second time: the first one also loads kernels."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cost(model: Model, plan: Plan, shown: Shots) -> Cost:
    """The expected seconds of each part, from a timed forward over some queries and a timed step."""
    probe = replace(shown, queries=shown.queries[:8])
    read = _seconds(lambda: zero_shot(model, probe)) / sum(len(q) for q in probe.queries)
    descent, lesson = Descent(model, WAYS["gd"], 1e-5), Lesson.of(shown, range(len(shown)), model.device)
    step = _seconds(lambda: float(descent.step(lesson)))  # read, as a GPU would else be still at work
    asked = sum(map(len, shown.queries)) * read
    prefix = len(shown.prefix(range(len(shown)))) * read
    parts = {"in-context": plan.orders * (asked + prefix) + asked}
    for way in plan.descents:
        batches = -(-len(shown) // way.batch) if way.batch else 1
        epoch = step * (1 if batches == 1 else 0.5 + 0.5 * batches)
        epochs, every = plan.epochs_of(way), plan.every_of(way)
        parts[way.name] = len(plan.rates_of(way)) * (epochs * epoch + -(-epochs // every) * asked)
        if way.name == "gd" or way.ordered:
            count = plan.orders if way.ordered else FEW_ORDERS
            parts[f"{way.name}, orders"] = count * (every * epoch + asked)
    if plan.controls:
        share = min(CONTROL_QUERIES, plan.queries) / plan.queries
        each = share * (plan.orders + 2) * (asked + prefix) + plan.every * len(plan.rates) * step
        parts |= {"shuffled labels": plan.orders * (asked + prefix), "untrained": each, "untrained blocks": each}
    if "patch" in plan.ways:
        parts["patch"] = PATCHED * 30 * prefix
    if "sizes" in plan.ways:
        parts["sizes"] = len(SIZES) * (plan.orders * (asked + prefix))
    if "many" in plan.ways:
        parts["many"] = 2 * len(COUNTS) * (max(COUNTS) / len(shown) * step + 8 * asked)
    if "attention" in plan.ways:
        parts["attention"] = 4 * (plan.every * step + 8 * prefix)
    if "updates" in plan.ways:
        parts["updates"] = 4 * 30 * prefix
    if "martingale" in plan.ways:
        parts["martingale"] = 3 * 40 * 100 * read
    if "fold" in plan.ways:
        parts["fold"] = 128 * 4 * step + asked
    return Cost(parts)
