"""The ledger for the page: every claim with its facts, its last verdict and the numbers behind it; one run live.

As a program it prints all claims as JSON.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from inweights._errors import InputError
from inweights.app._limits import ClaimRequest
from inweights.app._worker import Desk, Tell
from inweights.ledger import CLAIMS, Entry, criteria, facts, remarks, run_claims
from inweights.papers import load_all, recorded
from inweights.report import counted

SECONDS = 120.0
"""An exact claim whose quick run takes no longer may be run from the page."""


def listed() -> dict[str, Any]:
    """All claims in the order of their papers, and how many there are of each stratum and verdict."""
    load_all()
    entries, known, notes = recorded(), facts(), remarks()
    claims = []
    for id, claim in CLAIMS.items():
        fact = known[id]
        claims.append({
            "id": id, "paper": claim.paper.title, "authors": claim.paper.authors, "arxiv": claim.paper.arxiv,
            "where": claim.where, "sentence": claim.sentence, "measured": claim.measured, "control": claim.control,
            "stratum": str(fact.stratum), "meaning": fact.stratum.meaning, "paper_value": fact.paper_value,
            "rival": fact.rival, "deviations": list(fact.deviations), "uncounted": claim.uncounted,
            "remark": notes.get(id), "command": f"inweights claims run {id}", "live": runnable(id),
            "criteria": {name: str(c) for name, c in criteria()[id].quantities.items()},
            "cost": list(claim.cost), "last": numbers(entries[id]) if id in entries else None,
        })  # fmt: skip
    return {"claims": claims, "counts": counted(entries.values())}


def numbers(entry: Entry) -> dict[str, Any]:
    """A verdict with the numbers behind it, those of every trial included."""
    quantities = {
        name: {
            "value": j.value.value, "low": j.value.low, "high": j.value.high, "verdict": str(j.verdict),
            "control": j.control and j.control.value, "rival": j.rival and j.rival.value,
            "trials": finite(entry.seen.get(name, [[], []])[0]),
            "control_trials": finite(entry.seen.get(name, [[], []])[1]),
        }
        for name, j in entry.quantities.items()
    }  # fmt: skip
    return {
        "verdict": str(entry.verdict), "why": entry.why, "trials": entry.trials, "seconds": entry.seconds,
        "quantities": quantities, "criteria": entry.criteria,
    }  # fmt: skip


def finite(values: Any) -> list[float]:
    """The finite ones of some numbers, for a figure."""
    return [float(v) for v in values or [] if isinstance(v, int | float) and math.isfinite(v)]


def runnable(id: str) -> bool:
    """Whether the page may run a claim: exact, short, and in need of nothing."""
    claim = CLAIMS[id]
    return claim.exact and not claim.needs and claim.cost[0] <= SECONDS


def run_claim(request: ClaimRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """Runs an exact claim now, in its quick form, and compares the verdict with the recorded one."""
    load_all()
    if request.id not in CLAIMS or not runnable(request.id):
        raise InputError("Only an exact claim that takes less than two minutes is run here: use the command line.")
    tell.progress("running", 0, 1)
    (entry,) = run_claims([CLAIMS[request.id]], quick=True)
    last = recorded().get(request.id)
    return {"id": request.id, "now": numbers(entry), "recorded": str(last.verdict) if last else None}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(listed()))
