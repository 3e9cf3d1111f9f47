"""The ledger: runs the trials of claims, keeps what they found, and judges it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean as mean
from typing import Any

from pydantic import TypeAdapter

from inweights._errors import InputError
from inweights._read import CACHE_LIMIT, read_bytes
from inweights.claims._claim import Claim
from inweights.claims._code import below, judging, models, program
from inweights.claims._criteria import Criteria, changes, criteria
from inweights.claims._json import dumps, loads
from inweights.claims._judge import Judged, Verdict, judge
from inweights.claims._keep import Kept, key, read, write
from inweights.claims._made_with import made_with
from inweights.claims._papers import load_all
from inweights.claims._trial import NotHereError, Trial, UnmetError

RECORDED = Path(__file__).parent / "recorded.jsonl"


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
    def loose(self) -> bool:
        """Whether a control did not fail, or what was measured is no number."""
        return any(j.why for j in self.quantities.values())

    @property
    def stale(self) -> str:
        """Why it says nothing of the claim as it is today; empty if it does."""
        claim, needed = load_all().get(self.id), criteria().get(self.id)
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
        claim = load_all().get(self.id)
        return claim is not None and self.below != below(claim.measure)

    def line(self) -> str:
        """As one line of JSON."""
        return dumps(asdict(self))

    @classmethod
    def of(cls, line: bytes | str) -> Entry:
        """From its line; one of another form, or with values of other types, is a `ValueError`."""
        return ENTRY.validate_python(loads(line))


ENTRY = TypeAdapter(Entry)


@dataclass(frozen=True)
class Job:
    """One trial of one claim: what an engine is given."""

    id: str
    trial: Trial

    @property
    def name(self) -> str:
        return f"{self.id}-{self.trial.seed}"


def do(job: Job, folder: Path | None = None) -> Kept:
    """The trial, from the cache if its code and settings are the same; else made, and kept. `folder` is one that will
    be brought to the cache, where that is on another machine."""
    claim = load_all()[job.id]
    here = key(claim, job.trial)
    here = (folder or here.parent) / here.name
    kept = read(here)
    if kept is not None:
        return kept
    start = time.perf_counter()
    found, outcome, message = None, "found", ""
    try:
        found = claim.measure(job.trial)
    except NotHereError as error:
        outcome, message = "not here", str(error)
    except UnmetError as error:
        outcome, message = "unmet", str(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome = "broken"
        message = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
    kept = Kept.of(found, outcome, message, time.perf_counter() - start, made_with(job.trial.device))
    if outcome in ("found", "unmet"):  # what was not here or broke is tried again
        write(here, kept)
    return kept


Results = Callable[[list[Job]], Iterator[tuple[Job, Kept]]]


def one_by_one(jobs: list[Job]) -> Iterator[tuple[Job, Kept]]:
    """In this process, where a language model is loaded once."""
    return ((job, do(job)) for job in jobs)


def run(
    claims: list[Claim],
    *,
    quick: bool = True,
    device: str = "cpu",
    train: bool = False,
    results: Results = one_by_one,
    after: Callable[[Job, Kept], None] = lambda job, kept: None,
) -> Iterator[Entry]:
    """The entries of claims, each as soon as its trials are done. `results` is how they are made: here, one after
    the other, or side by side. Without `train`, a claim whose models are not there is not run."""
    needed = criteria()
    jobs = [Job(c.id, Trial(seed, quick, device, train)) for c in claims for seed in range(needed[c.id].seeds)]
    kept: dict[str, dict[int, Kept]] = {c.id: {} for c in claims}
    for job, one in results(jobs):
        kept[job.id][job.trial.seed] = one
        after(job, one)
        if len(kept[job.id]) == needed[job.id].seeds:
            yield entry(job.id, [kept[job.id][seed] for seed in sorted(kept[job.id])], quick=quick)


def entry(id: str, trials: list[Kept], *, quick: bool) -> Entry:
    """What follows from the trials of a claim."""
    needed = criteria()[id]
    there = [t for t in trials if t.outcome == "found"]
    odd = next((t for t in there if not _whole(t, there[0])), None)
    if odd is not None:  # it must not end the run of the others
        there, why = [], "its trials found different quantities, or no numbers"
        trials = [Kept.of(None, "broken", why, t.seconds) for t in trials]
    about: dict[str, Any] = {
        "criteria": asked(needed),
        "changes": sum(c.claim == id for c in changes()),
        "trials": len(there),
        "quick": quick,
        "seconds": sum(t.seconds for t in trials),
        "seen": {
            name: (
                [mean(t.quantities[name][0]) for t in there],
                [mean(c) for t in there if (c := t.quantities[name][1])] or None,
            )
            for name in (there[0].quantities if there else ())
        },
        "program": program(load_all()[id].measure),
        "models": models(load_all()[id].models),
        "below": below(load_all()[id].measure),
        "judge": judging(),
        "plots": [t.plot for t in there if t.plot],
        "told": [t.told for t in there],
        "made_with": [dict(each) for each in dict.fromkeys(tuple(t.made_with.items()) for t in trials) if each],
    }
    for outcome, verdict in (("broken", Verdict.NOT_RUN), ("unmet", Verdict.INCONCLUSIVE)):
        if any(t.outcome == outcome for t in trials):
            why = next(t.message for t in trials if t.outcome == outcome)
            return Entry(id, verdict, why=why, broken=outcome == "broken", **about)
    if not there:
        return Entry(id, Verdict.NOT_RUN, why=trials[0].message, **about)
    try:
        verdict, judged = judge(
            needed,
            {
                name: (
                    [t.quantities[name][0] for t in there],
                    None if there[0].quantities[name][1] is None else [t.quantities[name][1] or [] for t in there],
                )
                for name in there[0].quantities
            },
        )
    except (ValueError, KeyError) as error:  # what it found is not what its criteria are about
        return Entry(id, Verdict.NOT_RUN, why=f"{type(error).__name__}: {error}", broken=True, **about)
    why = "; ".join(f"{name}: {j.why}" for name, j in judged.items() if j.why)
    if verdict is Verdict.INCONCLUSIVE and not why:
        straddled = [n for n, j in judged.items() if j.verdict is Verdict.INCONCLUSIVE]
        why = f"the interval of {', '.join(straddled)} straddles the bound"
    if len(there) < len(trials):  # what was measured is told, but too few trials are no verdict
        lacking = next(t.message for t in trials if t.outcome == "not here")
        verdict, why = Verdict.INCONCLUSIVE, f"{len(there)} of {len(trials)} trials: {lacking}"
    return Entry(id, verdict, judged, why=why, **about)


def asked(needed: Criteria) -> dict[str, str]:
    """Criteria as a record tells them, by quantity."""
    return {name: str(c) for name, c in needed.quantities.items()}


def _whole(one: Kept, other: Kept) -> bool:
    """Whether a trial has numbers for all that another one has."""
    alike = {name: c is None for name, (_, c) in one.quantities.items()} == {
        name: c is None for name, (_, c) in other.quantities.items()
    }
    return alike and all(v and (c is None or c) for v, c in one.quantities.values())


def recorded() -> dict[str, Entry]:
    """The entries of the last full run, which come with the package."""
    return read_entries(RECORDED, "install inweights again")


def read_entries(path: Path, fix: str) -> dict[str, Entry]:
    """The entries of a file, by claim, if there is one; `fix` ends the sentence that refuses a damaged line."""
    found: dict[str, Entry] = {}
    data = read_bytes(path, "The file", CACHE_LIMIT, fix) if path.is_file() else b""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            entry = Entry.of(line)
        except ValueError:
            raise InputError(f"Line {number} of {str(path)!r} is damaged, it is no result of a claim: {fix}.") from None
        found[entry.id] = entry
    return found
