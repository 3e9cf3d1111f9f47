"""Results: what a run writes for each claim, line by line in `results.jsonl`, and reads back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from inweights._errors import InputError
from inweights._files import write_atomic
from inweights._read import CACHE_LIMIT, read_bytes
from inweights.ledger._claim import CLAIMS, Claim
from inweights.ledger._code import below, judging, models, program
from inweights.ledger._criteria import Criteria, criteria
from inweights.ledger._json import dumps, loads
from inweights.ledger._judge import Judged, Verdict

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Entry:
    """What the ledger says of a claim.

    - `why`: of a verdict that is neither PASS nor FAIL. `broken`: the claim's own program failed.
    - `trials`: how many were made; `seen`, `plots` and `told`: what each of them found and had to show. Of a trial with
      many units, `seen` has the mean.
    - `program`: a hash of the claim's program; `models`: of the trained models that it needs or tells about; `below`:
      of the code below the ledger that it reaches; `judge`: of the code that made a verdict of the numbers.
    - `made_with`: versions and hardware of its trials; several, if they were made in several places.
    - `changes`: how often its criteria had been changed by then.
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
    changes: int = 0

    @property
    def claim(self) -> Claim:
        """The claim that it is of, which must be loaded."""
        return CLAIMS[self.id]

    @property
    def loose(self) -> bool:
        """Whether a control did not fail, or what was measured is no number."""
        return any(j.why for j in self.quantities.values())

    @property
    def stale(self) -> str:
        """Why it says nothing of the claim as it is today; empty if it does."""
        claim, needed = CLAIMS.get(self.id), criteria().get(self.id)
        if claim is None or needed is None:
            return "there is no such claim any more"
        if self.program != program(claim.measure):
            return "the claim's program has changed since"
        if self.models != models(claim.models):
            return "the trained models have changed since"
        if self.judge != judging():
            return "the judge has changed since"
        decided = self.verdict in (Verdict.PASS, Verdict.FAIL)
        if self.criteria != asked(needed) or (decided and self.trials != needed.seeds):
            return "the criteria have changed since"
        return "it is of a quick run" if self.quick else ""

    @property
    def changed(self) -> bool:
        """Whether code below the ledger that the claim reaches is another one today. That alone makes nothing stale:
        most changes there change no number, and tests of their own guard them."""
        claim = CLAIMS.get(self.id)
        return claim is not None and self.below != below(claim.measure)

    def line(self) -> str:
        """As one line of JSON."""
        return dumps(asdict(self))

    @classmethod
    def of(cls, line: bytes | str) -> Entry:
        """From its line; one of another form, or with values of other types, is a `ValueError`."""
        return ENTRY.validate_python(loads(line))


ENTRY = TypeAdapter(Entry)


def asked(needed: Criteria) -> dict[str, str]:
    """Criteria as a record tells them, by quantity."""
    return {name: str(c) for name, c in needed.quantities.items()}


def results(folder: Path) -> dict[str, Entry]:
    """What runs have written to a folder so far, by claim."""
    return read_entries(folder / RESULTS, "delete that line or the file, or name another folder")


def append(folder: Path, entry: Entry) -> bool:
    """Adds an entry to the results of a folder; one of the same claim that is there already is replaced.

    What could not be run does not take the place of a verdict: then nothing is written, and the answer is False.
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
    """A file of entries, all at once."""
    write_atomic(path, "".join(e.line() + "\n" for e in entries))


def read_entries(path: Path, fix: str) -> dict[str, Entry]:
    """The entries of a file, by claim, if there is one; `fix` ends the sentence that refuses a damaged line."""
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
    """How many bytes its finished lines have: a run that was killed may have left the beginning of another one."""
    return data.rfind(b"\n") + 1
