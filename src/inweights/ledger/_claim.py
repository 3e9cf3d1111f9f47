"""`Claim`: a sentence of a paper as a small function, and what such a function finds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from inweights.ledger._trial import Trial

Numbers = float | Sequence[float] | Tensor


@dataclass(frozen=True)
class Paper:
    """Where sentences come from. `arxiv` and `authors` are empty for what is no paper.

    `folder` has the paper's `criteria.toml` and, where there is something to remark, its `remarks.toml`.
    """

    key: str
    title: str
    authors: str
    arxiv: str
    year: int
    folder: Path

    def __str__(self) -> str:
        return f"{self.title} ({self.authors} {self.year}, arXiv {self.arxiv})" if self.arxiv else self.title


@dataclass(frozen=True)
class Plot:
    """What a trial has to show: lines over the same `x` in every trial, so that the ledger can draw their means.

    `lines[name]` is as long as `x`; `log` names the axes with a logarithmic scale: "", "x", "y" or "xy".
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    log: str = ""


@dataclass(frozen=True)
class Measurement:
    """What one trial of a claim found.

    - `quantities[name]` is `(value, control)`: the same measurement in the world of the claim and in one where it is
      false. A number, or one for each unit (prompt, item) of the trial. A control is None where the criteria ask for
      none.
    - `reported`: further numbers that no verdict depends on, e.g. what the paper itself gives.
    """

    quantities: Mapping[str, tuple[Numbers, Numbers | None]]
    plot: Plot | None = None
    reported: Mapping[str, float] = field(default_factory=dict)


Measure = Callable[["Trial"], Measurement]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and the function that puts it to the test once, with one seed.

    - `exact`: an equality, which holds or not; else a matter of measurement.
    - `cost`: seconds on two cores, about: of a quick run and of a full one.
    - `needs`: what has to be there: recipes of trained models, "smollm2", or a data set. `tells`: recipes of models
      that it only tells about, where they are there.
    - `repeats`: the id of the claim that says the same sentence, or of which it is the corrected form. One that repeats
      another is shown, but not counted.
    - `aside`: why it is not counted although no other says it, e.g. that it was looked up and not measured.
    """

    id: str
    paper: Paper
    where: str
    sentence: str
    measured: str
    control: str
    settings: str
    precondition: str
    exact: bool
    cost: tuple[float, float]
    needs: tuple[str, ...]
    measure: Measure
    repeats: str = ""
    aside: str = ""
    tells: tuple[str, ...] = ()

    @property
    def uncounted(self) -> str:
        """Why it does not count as a claim of its own, as a sentence; empty if it does."""
        if self.repeats:
            return f"Goes with {self.repeats}; not counted."
        return f"Not counted: {self.aside}." if self.aside else ""

    @property
    def models(self) -> tuple[str, ...]:
        """What its numbers hang on beside its program."""
        return (*self.needs, *self.tells)


CLAIMS: dict[str, Claim] = {}

_PARTS = ("Measured", "Control", "Settings", "Precondition")


def claim(
    id: str,
    paper: Paper,
    where: str,
    *,
    exact: bool = False,
    cost: tuple[float, float] = (1.0, 1.0),
    needs: tuple[str, ...] = (),
    repeats: str = "",
    aside: str = "",
    tells: tuple[str, ...] = (),
) -> Callable[[Measure], Measure]:
    """Enters a function into the ledger. Its docstring is the claim: the sentence, then `Measured:`, `Control:`,
    `Settings:` and, if there is one, `Precondition:`, each at the beginning of a paragraph."""

    def enter(measure: Measure) -> Measure:
        parts = dict.fromkeys(("sentence", *(p.lower() for p in _PARTS)), "")
        for paragraph in inspect.cleandoc(measure.__doc__ or "").split("\n\n"):
            text = " ".join(paragraph.split())
            head = re.match(rf"({'|'.join(_PARTS)}): ", text)
            parts[head[1].lower() if head else "sentence"] += text[head.end() :] if head else text
        missing = [name for name in ("sentence", "measured", "control", "settings") if not parts[name]]
        if missing or id in CLAIMS:
            raise ValueError(f"claim {id!r}: {'there twice' if id in CLAIMS else 'no ' + ', '.join(missing)}")
        CLAIMS[id] = Claim(
            id, paper, where, exact=exact, cost=cost, needs=needs, measure=measure, repeats=repeats, aside=aside,
            tells=tells, **parts,
        )  # fmt: skip
        return measure

    return enter
