"""Trials in parallel: those that are not in the cache are run by an engine, and their results are cached here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from inweights._errors import InputError
from inweights.engines import Beat, choose
from inweights.ledger._cache import Kept, key, read
from inweights.ledger._claim import CLAIMS
from inweights.ledger._code import made_by
from inweights.ledger._run import Job, Results, do, one_by_one, seeds_of


@dataclass(frozen=True)
class Answer:
    """The result of a trial run by a worker, and the hash of the code and models that the worker used."""

    kept: Kept
    code: str


def made_here(job: Job) -> str:
    """The hash of the code and models of a trial on this machine; empty if there is no such claim."""
    claim = job.claim
    return made_by(claim.measure, claim.models) if claim else ""


@dataclass(frozen=True)
class Measuring:
    """A trial as work for an engine. Its result is returned, and written as a file for the caller's cache. The file is
    keyed by the code that produced it, so that a node with another version cannot corrupt the cache."""

    job: Job
    folder: Path

    @property
    def key(self) -> str:
        return self.job.name

    def do(self, folder: Path, beat: Beat) -> Answer:
        """Runs the trial in one thread: each trial has one core, and sums do not depend on the number of cores."""
        torch.set_num_threads(1)
        return Answer(do(replace(self.job, trial=replace(self.job.trial, beat=beat)), folder), made_here(self.job))

    def failed(self, why: str) -> Answer:
        return Answer(Kept.of(None, "broken", why, 0.0), made_here(self.job))


def accepted(answer: Answer, job: Job) -> Kept:
    """The worker's result if its code and models are the same as here; else a broken trial with the reason."""
    here, code = (
        made_here(job),
        getattr(answer, "code", None),
    )  # answers of early versions had no hash
    if code == here:
        return answer.kept
    why = (
        f"The answer of a worker with other code was refused (its hash is {(code or 'unknown')[:8]}, here it is "
        f"{here[:8]}): give it the inweights, torch and transformers of this machine."
    )
    return Kept.of(None, "broken", why, 0.0)


def longest_first(works: list[Measuring]) -> list[Measuring]:
    """Sorts work by expected duration, longest first, to shorten the total time. Trials of one claim stay together."""

    def seconds(work: Measuring) -> float:
        claim, quick = CLAIMS[work.job.id], work.job.trial.quick
        return claim.cost[0 if quick else 1] / len(seeds_of(claim, quick=quick))

    return sorted(works, key=seconds, reverse=True)


def side_by_side(engine: str, jobs: int | None, address: str | None) -> Results:
    """The `results` argument of `run_claims`: trials run by `ray`, or by `jobs` processes of this machine. With one job
    they run in this process."""
    answers = choose(engine, address)
    if engine == "local" and (jobs or 1) == 1:
        return one_by_one

    def results(asked: list[Job]) -> Iterator[tuple[Job, Kept]]:
        if engine == "ray" and any(job.trial.device != "cpu" for job in asked):
            raise InputError("--engine ray runs trials on CPUs: leave out --device, or --engine.")
        waiting: dict[str, Measuring] = {}
        for job in asked:
            here = key(CLAIMS[job.id], job.trial)
            kept = read(here)
            if kept is not None:
                yield job, kept
            else:
                waiting[job.name] = Measuring(job, here.parent)
        if waiting:
            with closing(answers(longest_first(list(waiting.values())), jobs, address)) as result:
                for name, answer in result:
                    yield waiting[name].job, accepted(answer, waiting[name].job)

    return results
