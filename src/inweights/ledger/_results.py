"""Results of claims: one line per claim in `results.jsonl`, written and read back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from inweights._draw import Shown, new_axes
from inweights._errors import InputError
from inweights._files import write_atomic
from inweights._read import CACHE_LIMIT, read_bytes
from inweights.ledger._claim import CLAIMS, Claim
from inweights.ledger._code import below, judging, models, program
from inweights.ledger._criteria import Criteria, criteria
from inweights.ledger._json import dumps, loads
from inweights.ledger._judge import Judged, Verdict
from inweights.ledger._show import MEANINGS, Strip

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Entry(Shown):
    """The result of a claim: its verdict, and the measurements behind it.

    - `why`: the reason for a verdict that is neither PASS nor FAIL. `broken`: the claim's program raised an error.
    - `trials`: the number of trials with a result. For each of them: `seen`, the values and the controls (the mean, if
      a trial has many units); `rivals`, the values under a rival explanation; `plots`, its curves; `told`, further
      measurements that no verdict depends on.
    - `program`: a hash of the claim's program; `models`: of the trained models that it uses; `below`: of the code below
      the ledger that it reaches; `judge`: of the code that derives verdicts.
    - `made_with`: versions and hardware of its trials; several, if they ran on several machines.
    - `registered`: the hash of what was registered of the claim at the time of the run.
    """

    id: str
    verdict: Verdict
    quantities: dict[str, Judged] = field(default_factory=dict)
    criteria: dict[str, str] = field(default_factory=dict)
    why: str = ""
    broken: bool = False
    trials: int = 0
    quick: bool = True
    seconds: float = 0.0
    seen: dict[str, tuple[list[float], list[float] | None]] = field(default_factory=dict)
    plots: list[dict[str, Any]] = field(default_factory=list)
    told: list[dict[str, float]] = field(default_factory=list)
    program: str = ""
    models: str = ""
    below: str = ""
    judge: str = ""
    made_with: list[dict[str, str]] = field(default_factory=list)
    registered: str = ""
    rivals: dict[str, list[float]] = field(default_factory=dict)

    @property
    def claim(self) -> Claim:
        """The claim of this result, which must be loaded."""
        return CLAIMS[self.id]

    @property
    def loose(self) -> bool:
        """Whether a control did not fail, or a measured value is not a number."""
        return any(j.loose for j in self.quantities.values())

    @property
    def stale(self) -> str:
        """Why the result does not apply to the current form of the claim; empty if it does."""
        claim, needed = CLAIMS.get(self.id), criteria().get(self.id)
        if claim is None or needed is None:
            return "there is no such claim any more"
        if self.program != program(claim.measure):
            return "the claim's program has changed since"
        if self.models != models(claim.models):
            return "the trained models have changed since"
        if self.judge != judging():
            return "the judge has changed since"
        decided = self.verdict not in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN)
        if self.criteria != asked(needed) or (decided and self.trials != needed.seeds):
            return "the criteria have changed since"
        return "it is of a quick run" if self.quick else ""

    @property
    def changed(self) -> bool:
        """Whether the code below the ledger that the claim reaches has changed since the run. That alone does not make
        a result stale: most such changes affect no number, and that code has its own tests."""
        claim = CLAIMS.get(self.id)
        return claim is not None and self.below != below(claim.measure)

    def strips(self) -> list[Strip]:
        """What a figure shows: for each quantity the numbers of its trials, of control and rival, and the bounds."""
        needed = criteria()[self.id].quantities
        return [
            Strip.of(name, self.seen[name], self.rivals.get(name), self.quantities.get(name), needed.get(name))
            for name in self.seen
        ]

    def plot(self, axes: Any = None) -> Any:
        """Draws one quantity after the other on `axes`, a sequence of as many; by default on new ones of pyplot."""
        strips = self.strips()
        if axes is None:
            axes = new_axes(self._size(), max(1, len(strips)))
        for strip, own in zip(strips, axes, strict=False):
            strip.draw(own)
        return axes

    def _draw(self, axes: Any) -> None:
        canvas, strips = axes.figure, self.strips()
        axes.remove()
        self.plot(canvas.subplots(1, len(strips), squeeze=False)[0] if strips else [])

    def _size(self) -> tuple[float, float]:
        return (max(4.2, 2.9 * len(self.seen)), 4.2)

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("claim", self.id), ("verdict", f"{self.verdict}: {MEANINGS[self.verdict]}")]
        rows += [("sentence", self.claim.sentence)] if self.id in CLAIMS else []
        rows += [("reason", self.why)] if self.why else []
        for name, j in self.quantities.items():
            control = "" if j.control is None else f"; control {j.control.value:.3g}"
            rows.append((name.replace("_", " "), f"{j.value.value:.3g} ({self.criteria[name]}){control}"))
        return rows

    def line(self) -> str:
        """The entry as one line of JSON."""
        return dumps(asdict(self))

    @classmethod
    def of(cls, line: bytes | str) -> Entry:
        """Parses a line of JSON. Raises `ValueError` if fields or types do not match."""
        return ENTRY.validate_python(loads(line))


ENTRY = TypeAdapter(Entry)


def asked(needed: Criteria) -> dict[str, str]:
    """Criteria as text, by quantity, in the form that results store."""
    return {name: str(c) for name, c in needed.quantities.items()}


def results(folder: Path) -> dict[str, Entry]:
    """The results in a folder, by claim."""
    return read_entries(folder / RESULTS, "delete that line or the file, or name another folder")


def append(folder: Path, entry: Entry) -> bool:
    """Adds an entry to the results of a folder, replacing an earlier entry of the same claim.

    A NOT-RUN entry does not replace a verdict: then nothing is written, and False is returned.
    """
    path, entries = folder / RESULTS, results(folder)
    before = entries.get(entry.id)
    if before is not None:
        if entry.verdict is Verdict.NOT_RUN and before.verdict is not Verdict.NOT_RUN:
            return False
        write_entries(path, (entries | {entry.id: entry}).values())
        return True
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(_whole_lines(file.read()))
        file.write(entry.line().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return True


def write_entries(path: Path, entries: Iterable[Entry]) -> None:
    """Writes a file of entries atomically."""
    write_atomic(path, "".join(e.line() + "\n" for e in entries))


def read_entries(path: Path, fix: str) -> dict[str, Entry]:
    """The entries of a file, by claim; empty if there is no file. `fix` ends the error message for a damaged line."""
    entries: dict[str, Entry] = {}
    data = read_bytes(path, "The file", CACHE_LIMIT, fix) if path.is_file() else b""
    for number, line in enumerate(data[: _whole_lines(data)].splitlines(), 1):
        try:
            entry = Entry.of(line)
        except ValueError:
            raise InputError(f"Line {number} of {str(path)!r} is damaged, it is no result of a claim: {fix}.") from None
        entries[entry.id] = entry
    return entries


def _whole_lines(data: bytes) -> int:
    """The number of bytes in complete lines: a run that was killed may have left an incomplete one."""
    return data.rfind(b"\n") + 1
