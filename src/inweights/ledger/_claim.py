"""`Claim`: a sentence of a paper with the function that tests it, and `Measurement`: the result of such a function."""

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
    """The source of claims. `arxiv` and `authors` are empty for a source that is not a paper; `version` is that of the
    arXiv paper that was read, empty where the source does not say; `published` is where the paper appeared.

    `folder` has the paper's `criteria.toml`, `facts.toml` and, optionally, `remarks.toml`.
    """

    key: str
    title: str
    authors: str
    arxiv: str
    year: int
    folder: Path
    version: str = ""
    published: str = ""

    @property
    def edition(self) -> str:
        """The version on arXiv and the place of publication, as far as they are known; empty if none is."""
        return ", ".join(part for part in (self.version, self.published) if part)

    @property
    def address(self) -> str:
        """The address of the paper; empty for a source that is not a paper."""
        return f"https://arxiv.org/abs/{self.arxiv}{self.version}" if self.arxiv else ""

    def __str__(self) -> str:
        return f"{self.title} ({self.authors} {self.year}, arXiv {self.arxiv})" if self.arxiv else self.title


@dataclass(frozen=True)
class Plot:
    """The curves of one trial. `x` is the same in every trial, so that the ledger can plot means over trials.

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
    """The result of one trial of a claim.

    - `quantities[name]` is `(value, control)`: the same measurement under the claim and, as its negative control, in a
      setting where the claim is false. Each is a number, or one number per unit (prompt, item) of the trial. The
      control is None where the criteria require none.
    - `rivals[name]`: the same measurement under a rival explanation, something else that could produce the result.
    - `reported`: further numbers that no verdict depends on, e.g. the value stated in the paper.
    """

    quantities: Mapping[str, tuple[Numbers, Numbers | None]]
    plot: Plot | None = None
    reported: Mapping[str, float] = field(default_factory=dict)
    rivals: Mapping[str, Numbers] = field(default_factory=dict)


Measure = Callable[["Trial"], Measurement]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and the function `measure` that tests it once, with one seed.

    - `exact`: whether the claim is an equality, which holds or does not; otherwise it is an empirical statement.
    - `cost`: approximate seconds on two cores, of a quick run and of a full run.
    - `needs`: what must be available: recipes of trained models, "smollm2", or a data set.
    - `tells`: recipes of models that are only reported on, where they are available.
    - `repeats`: the id of the claim that makes the same statement, or that this one corrects. A claim that repeats
      another one is shown, but not counted.
    - `aside`: why the claim is not counted although it repeats no other, e.g. that it was looked up and not measured.
    """

    id: str
    paper: Paper
    where: str
    sentence: str
    measured: str
    control: str
    rival: str
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
        """Why the claim is not counted separately, as a sentence; empty if it is counted."""
        if self.repeats:
            return f"Goes with {self.repeats}; not counted."
        return f"Not counted: {self.aside}." if self.aside else ""

    @property
    def models(self) -> tuple[str, ...]:
        """The models and data sets that its numbers depend on, in addition to its program."""
        return (*self.needs, *self.tells)


CLAIMS: dict[str, Claim] = {}

_PARTS = ("Measured", "Control", "Rival", "Settings", "Precondition")


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
    """Registers a function as a claim. Its docstring states the claim: the sentence, then `Measured:`, `Control:`,
    `Settings:` and, if they are measured, `Rival:` and `Precondition:`, each at the beginning of a paragraph."""

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
