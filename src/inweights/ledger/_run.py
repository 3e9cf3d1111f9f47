"""`run_claims`: makes the trials of claims, keeps what they measured, and judges it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean as mean
from typing import Any

from inweights._errors import InputError
from inweights.ledger._cache import Kept, key, read, write
from inweights.ledger._claim import CLAIMS, Claim
from inweights.ledger._code import below, judging, models, program
from inweights.ledger._criteria import changes, criteria
from inweights.ledger._judge import Verdict, judge
from inweights.ledger._made_with import made_with
from inweights.ledger._results import Entry, asked
from inweights.ledger._trial import NotHereError, Trial, UnmetError


@dataclass(frozen=True)
class Job:
    """One trial of one claim, which `module` defines: what an engine is given. No module: it is loaded already."""

    id: str
    trial: Trial
    module: str = ""

    @classmethod
    def of(cls, claim: Claim, trial: Trial) -> Job:
        return cls(claim.id, trial, claim.measure.__module__)

    @property
    def name(self) -> str:
        return f"{self.id}-{self.trial.seed}"

    @property
    def claim(self) -> Claim | None:
        """In a process of its own nothing is loaded yet, so its module is imported first."""
        if self.module:
            import_module(self.module)
        return CLAIMS.get(self.id)


def do(job: Job, folder: Path | None = None) -> Kept:
    """The trial, from the cache if its code and settings are the same; else made, and kept. `folder` is one that will
    be brought to the cache, where that is on another machine."""
    claim = job.claim
    if claim is None:
        raise InputError(f"There is no claim {job.id!r}.")
    here = key(claim, job.trial)
    here = (folder or here.parent) / here.name
    kept = read(here)
    if kept is not None:
        return kept
    start = time.perf_counter()
    result, outcome, message = None, "found", ""
    try:
        result = claim.measure(job.trial)
    except NotHereError as error:
        outcome, message = "not here", str(error)
    except UnmetError as error:
        outcome, message = "unmet", str(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome = "broken"
        message = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
    kept = Kept.of(result, outcome, message, time.perf_counter() - start, made_with(job.trial.device))
    if outcome in ("found", "unmet"):  # what was not here or broke is tried again
        write(here, kept)
    return kept


Results = Callable[[list[Job]], Iterator[tuple[Job, Kept]]]


def one_by_one(jobs: list[Job]) -> Iterator[tuple[Job, Kept]]:
    """In this process, where a language model is loaded once."""
    return ((job, do(job)) for job in jobs)


def run_claims(
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
    jobs = [Job.of(c, Trial(seed, quick, device, train)) for c in claims for seed in range(needed[c.id].seeds)]
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
        "program": program(CLAIMS[id].measure),
        "models": models(CLAIMS[id].models),
        "below": below(CLAIMS[id].measure),
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


def _whole(one: Kept, other: Kept) -> bool:
    """Whether a trial has numbers for all that another one has."""
    alike = {name: c is None for name, (_, c) in one.quantities.items()} == {
        name: c is None for name, (_, c) in other.quantities.items()
    }
    return alike and all(v and (c is None or c) for v, c in one.quantities.values())
