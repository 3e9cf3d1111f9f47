"""`run_claims`: runs the trials of claims, caches their results, and judges them."""

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
from inweights.lab.training import made_with
from inweights.ledger._cache import Kept, key, read, write
from inweights.ledger._claim import CLAIMS, Claim
from inweights.ledger._code import below, judging, models, program
from inweights.ledger._criteria import criteria
from inweights.ledger._judge import Judged, Verdict, judge
from inweights.ledger._register import registration
from inweights.ledger._results import Entry, asked
from inweights.ledger._trial import NotHereError, Trial, UnmetError


@dataclass(frozen=True)
class Job:
    """One trial of one claim. `module` is the module that defines the claim; empty if it is loaded already."""

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
        """The claim, or None if there is none. Its module is imported first, as a worker process has not loaded it."""
        if self.module:
            import_module(self.module)
        return CLAIMS.get(self.id)


def do(job: Job, folder: Path | None = None) -> Kept:
    """The result of a trial: from the cache if code and settings are the same, else computed and cached. `folder`
    replaces the cache folder where the cache is on another machine; its files are copied to the cache later."""
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
    if outcome in ("found", "unmet"):  # other outcomes are not cached, so that the trial is run again
        write(here, kept)
    return kept


QUICK_TRIALS = 3


def seeds_of(claim: Claim, *, quick: bool) -> range:
    """The seeds of a claim's trials. A quick run has the first three at most: its verdict is an indication, and the
    time of all claims together is spent on more claims rather than on narrower intervals."""
    seeds = criteria()[claim.id].trials
    return seeds[:QUICK_TRIALS] if quick else seeds


Results = Callable[[list[Job]], Iterator[tuple[Job, Kept]]]


def one_by_one(jobs: list[Job]) -> Iterator[tuple[Job, Kept]]:
    """Runs jobs one after the other in this process, which loads a language model only once."""
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
    """Yields the entry of each claim as soon as its trials are done.

    - `train`: whether to train missing models; without it, a claim that needs one is NOT-RUN.
    - `results`: how jobs are run: one after the other in this process, or in parallel (`side_by_side`).
    - `after`: called after each trial.
    """
    seeds = {c.id: seeds_of(c, quick=quick) for c in claims}
    jobs = [Job.of(c, Trial(seed, quick, device, train)) for c in claims for seed in seeds[c.id]]
    kept: dict[str, dict[int, Kept]] = {c.id: {} for c in claims}
    for job, one in results(jobs):
        kept[job.id][job.trial.seed] = one
        after(job, one)
        if len(kept[job.id]) == len(seeds[job.id]):
            yield entry(job.id, [kept[job.id][seed] for seed in sorted(kept[job.id])], quick=quick)


def entry(id: str, trials: list[Kept], *, quick: bool) -> Entry:
    """The entry of a claim: the verdict that follows from its trials."""
    needed = criteria()[id]
    there = [t for t in trials if t.outcome == "found"]
    odd = next((t for t in there if not _whole(t, there[0])), None)
    if odd is not None:  # an error here would end the run of the other claims
        there, why = [], "its trials found different quantities, or no numbers"
        trials = [Kept.of(None, "broken", why, t.seconds) for t in trials]
    about: dict[str, Any] = {
        "criteria": asked(needed),
        "registered": registration(CLAIMS[id]),
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
        "rivals": {name: [mean(t.rivals[name]) for t in there] for name in (there[0].rivals if there else ())},
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
            {name: [t.rivals[name] for t in there] for name in there[0].rivals},
        )
    except (ValueError, KeyError) as error:  # the measured quantities do not match the criteria
        return Entry(id, Verdict.NOT_RUN, why=f"{type(error).__name__}: {error}", broken=True, **about)
    why = explained(verdict, judged)
    if len(there) < len(trials):  # the measurements are reported, but too few trials allow no verdict
        lacking = next(t.message for t in trials if t.outcome == "not here")
        verdict, why = Verdict.INCONCLUSIVE, f"{len(there)} of {len(trials)} trials: {lacking}"
    return Entry(id, verdict, judged, why=why, **about)


def explained(verdict: Verdict, judged: dict[str, Judged]) -> str:
    """The reason for a verdict, as far as it follows from the numbers; empty for PASS and FAIL."""
    why = "; ".join(f"{name}: {j.why}" for name, j in judged.items() if j.why)
    if verdict is Verdict.INCONCLUSIVE and not why:
        straddled = [n for n, j in judged.items() if j.verdict is Verdict.INCONCLUSIVE]
        return f"the interval of {', '.join(straddled)} straddles the bound"
    return why


def _whole(one: Kept, other: Kept) -> bool:
    """Whether a trial has the same quantities, controls and rivals as another one, none of them empty."""
    alike = {name: c is None for name, (_, c) in one.quantities.items()} == {
        name: c is None for name, (_, c) in other.quantities.items()
    }
    alike = alike and set(one.rivals) == set(other.rivals)
    return alike and all(one.rivals.values()) and all(v and (c is None or c) for v, c in one.quantities.values())
