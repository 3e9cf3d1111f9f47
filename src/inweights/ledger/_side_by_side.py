"""Trials side by side: those that are not in the cache are given to an engine, and what they found is kept here."""

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
from inweights.ledger._criteria import criteria
from inweights.ledger._run import Job, Results, do, one_by_one


@dataclass(frozen=True)
class Answer:
    """What a worker found, and the hash of what it was made by."""

    kept: Kept
    code: str


def made_here(job: Job) -> str:
    """The hash of what a trial is made by, empty if there is no such claim."""
    claim = job.claim
    return made_by(claim.measure, claim.models) if claim else ""


@dataclass(frozen=True)
class Measuring:
    """A trial as work for an engine. What it found is its answer, and a file for the cache of who asked: under the key
    of the code that made it, so that a node with another version spoils nothing there."""

    job: Job
    folder: Path

    @property
    def key(self) -> str:
        return self.job.name

    def do(self, folder: Path, beat: Beat) -> Answer:
        """One thread: each trial has one core, and the sums are the same whatever the number of cores."""
        torch.set_num_threads(1)
        return Answer(do(replace(self.job, trial=replace(self.job.trial, beat=beat)), folder), made_here(self.job))

    def failed(self, why: str) -> Answer:
        return Answer(Kept.of(None, "broken", why, 0.0), made_here(self.job))


def accepted(answer: Answer, job: Job) -> Kept:
    """What it found, if code and models were the same as here; else a trial that broke, and the reason."""
    here, code = (
        made_here(job),
        getattr(answer, "code", None),
    )  # before there were hashes, an answer was what had been found
    if code == here:
        return answer.kept
    why = (
        f"The answer of a worker with other code was refused (its hash is {(code or 'unknown')[:8]}, here it is "
        f"{here[:8]}): give it the inweights, torch and transformers of this machine."
    )
    return Kept.of(None, "broken", why, 0.0)


def longest_first(works: list[Measuring]) -> list[Measuring]:
    """So that at the end nobody waits long for the last one. Trials of one claim stay together."""
    needed = criteria()

    def seconds(work: Measuring) -> float:
        id, quick = work.job.id, work.job.trial.quick
        return CLAIMS[id].cost[0 if quick else 1] / needed[id].seeds

    return sorted(works, key=seconds, reverse=True)


def side_by_side(engine: str, jobs: int | None, address: str | None) -> Results:
    """How trials are made, for `run`: by `ray`, or by `jobs` processes of this machine. One process is this one."""
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
