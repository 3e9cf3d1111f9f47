"""`rejudged`: a recorded result under a new judge or with a ratio on a logarithmic scale, without new trials."""

from __future__ import annotations

from dataclasses import replace

from inweights._errors import InputError
from inweights.ledger._code import judging, models, program
from inweights.ledger._criteria import Criterion, criteria
from inweights.ledger._intervals import Interval, log_mean
from inweights.ledger._judge import Measured, Verdict, decide
from inweights.ledger._results import Entry, asked
from inweights.ledger._run import explained


def rejudged(entry: Entry) -> Entry:
    """The entry with the verdict that today's judge and criteria derive from its recorded numbers.

    An error if that needs new trials: the program or the models are others; or the bound for each number is another
    one, so that another number could be the worst; or a rival explanation was not measured. Intervals are those
    recorded, except for ratios on a logarithmic scale, which follow from the mean of each trial.
    """
    claim, needed = entry.claim, criteria()[entry.id]
    if entry.program != program(claim.measure) or entry.models != models(claim.models):
        raise InputError(f"{entry.id}: its program or its models have changed: run it again.")
    entry = replace(entry, judge=judging())
    if not entry.quantities:
        return replace(entry, criteria=asked(needed))
    if set(entry.quantities) != set(needed.quantities):
        raise InputError(f"{entry.id}: its quantities are others now: run it again.")
    intervals = {name: _recorded(entry, name, c) for name, c in needed.quantities.items()}
    verdict, judged = decide(needed, intervals, entry.trials)
    if entry.verdict is Verdict.INCONCLUSIVE and entry.trials < needed.seeds:
        verdict = entry.verdict
    return replace(entry, verdict=verdict, quantities=judged, why=explained(verdict, judged), criteria=asked(needed))


def _recorded(entry: Entry, name: str, c: Criterion) -> Measured:
    """The intervals of a quantity, from the record."""
    then = entry.quantities[name]
    if (c.each and str(c) != entry.criteria[name]) or (c.rival and then.rival is None):
        raise InputError(f"{entry.id}: the criterion of {name} is another one: run it again.")
    if not c.scale:
        return then.value, then.control, then.rival
    values, controls = entry.seen[name]
    rivals = entry.rivals.get(name)

    def again(means: list[float]) -> Interval:
        return log_mean(means, c.scale).within(c.range)

    return again(values), again(controls) if controls else None, again(rivals) if rivals else None
