"""`record` stores the results of a full run of the ledger; `page` writes them as `docs/claims.md`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from inweights._errors import InputError, Problems
from inweights._files import write_atomic
from inweights.ledger import (
    CLAIMS,
    Entry,
    Interval,
    Stratum,
    Verdict,
    criteria,
    facts,
    rejudged,
    remarks,
    results,
    unregistered,
    write_entries,
)
from inweights.papers import RECORDED, load_all, recorded

HEAD = """# The ledger

Every claim is a program with a measurement, a criterion and a *negative control*: the same measurement in a setting
where the claim is false, which must fail the criterion. It decides the verdict. A *rival explanation* is something else
that could produce the same result; it decides what the result is evidence of. The same results with one page for each
claim are in [docs/ledger](ledger/index.html), the registration of criteria and programs, with all changes, in
[docs/registration](registration/changes.toml).

- `PASS`, `FAIL`: the sentence holds, or does not, at the stated scale.
- `HOLDS-NOT-DIAGNOSTIC`: it holds, and so does a rival explanation.
- `ERRATUM`: it fails as it is written, by an index, a transpose or an edge case, and holds when that is corrected.
- `INCONCLUSIVE`: the interval straddles the criterion, a precondition did not hold, or the control did not fail.
- `NOT-RUN`: something that the claim needs was missing, such as a training.

Verdicts are counted in strata, and never added across them: an equality that algebra decides is no evidence about
trained networks.

*Statistics.* Intervals have 95%: bootstrap intervals over trials and the units in them, widened by Student's correction
for few trials, and for proportions at least Wilson's; for ratios, Student's interval of the mean of their logarithms.
Where a sentence says that two things are equal, the criterion is an equivalence test: the interval has to lie wholly
between two bounds (two one-sided tests of 2.5% each). A criterion on `each` has no interval: the worst unit decides.
*Multiple testing:* a claim passes only if all its quantities do, which needs no correction; before one of several may
fail it, intervals are widened, so that a true claim fails in less than 5% of cases. There is no correction across
claims: each verdict stands alone, and {many} of them rest on intervals, of which up to {wrong:.0f} may be wrong if
every truth lies exactly on its bound. Rates of wrong verdicts are tested on simulated claims.
"""

SINCE = "*Changed since:* "  # begins a line about the current code, not about the run


def record(folder: Path, docs: Path) -> None:
    """Records the results of a run in `folder`: in the package, and in `docs/claims.md`. Claims that were not run again
    keep their recorded results, as far as these are of the claims as they are now.

    A run is refused if it is not full, or if programs have changed since; or if a claim is not as it was registered
    before the run, in `docs/registration`.
    """
    known, result = load_all(), recorded() | results(folder)
    problems, changed = Problems(), unregistered(docs / "registration")
    for id in known:
        problems.unless(id in result, f"{id} was not run.")
        problems.unless(id not in result or not result[id].stale, f"{id}: {id in result and result[id].stale}.")
        differ = ", ".join(changed.get(id, ()))
        problems.unless(id not in changed, f"{id} is not as it was registered ({differ}): register it before the run.")
    problems.stop()
    _store({id: result[id] for id in known}, docs)


def rejudge(docs: Path) -> None:
    """Derives all recorded verdicts again, after a change of the judge, from the recorded numbers, and writes the page.
    An error if a claim needs new trials for that."""
    entries, problems = recorded(), Problems()
    for id, entry in entries.items():
        try:
            entries[id] = rejudged(entry)
        except InputError as error:
            problems.unless(False, str(error))
    problems.stop()
    _store(entries, docs)


def _store(entries: Mapping[str, Entry], docs: Path) -> None:
    write_entries(RECORDED, (replace(e, plots=[]) for e in entries.values()))  # the figures' tables have the rest
    write_atomic(docs / "claims.md", page(entries))


def write_page(docs: Path) -> None:
    """Writes `docs/claims.md` from the current record, with remarks and with what has changed since the run."""
    if not recorded():
        raise InputError("There is no record of a full run yet: `make ledger` makes one.")
    load_all()
    write_atomic(docs / "claims.md", page(recorded()))


def counted(entries: Iterable[Entry]) -> dict[str, dict[str, int]]:
    """The number of verdicts by stratum, of claims that are counted."""
    known, result = facts(), Counter[tuple[Stratum, Verdict]]()
    result.update((known[e.id].stratum, e.verdict) for e in entries if e.id in known and not e.claim.uncounted)
    return {
        str(s): {str(v): result[s, v] for v in Verdict if result[s, v]}
        for s in Stratum
        if any(result[s, v] for v in Verdict)
    }


def number(value: float) -> str:
    """A number with three significant digits."""
    return f"{value:.3g}" if math.isfinite(value) else "not finite"


def interval(result: Interval | None) -> str:
    """A value as text, with its interval if it has one; a dash for None."""
    if result is None:
        return "–"
    if result.low == result.high:
        return number(result.value)
    return f"{number(result.value)} [{number(result.low)}, {number(result.high)}]"


def measured(entry: Entry) -> list[tuple[str, str, str, str, str]]:
    """For each quantity of a result: its name, its value, the criterion, and the values of control and rival, as
    text."""
    return [
        (name, interval(j.value), entry.criteria[name], interval(j.control), interval(j.rival))
        for name, j in entry.quantities.items()
    ]


def page(entries: Mapping[str, Entry]) -> str:
    """The text of `docs/claims.md`: all claims by paper, each with its verdict, its numbers and its figure."""
    by_interval = sum(any(not c.each for c in criteria()[id].quantities.values()) for id in entries)
    lines = [HEAD.format(many=by_interval, wrong=0.05 * by_interval), "## Verdicts by stratum\n"]
    counts = counted(entries.values())
    shown = [v for v in Verdict if any(v in each for each in counts.values())]
    lines += [f"| stratum | {' | '.join(f'`{v}`' for v in shown)} |", "|---" * (len(shown) + 1) + "|"]
    for stratum, each in counts.items():
        cells = " | ".join(str(each.get(v, "")) for v in shown)
        lines.append(f"| `{stratum}`: {Stratum(stratum).meaning} | {cells} |")
    more = sum(bool(CLAIMS[id].uncounted) for id in entries)
    lines += ["", f"{more} more are shown and not counted.\n" if more else ""]
    lines += _made(entries) + _since(entries)
    papers = list(dict.fromkeys(CLAIMS[id].paper for id in entries))
    for paper in papers:
        lines.append(f"## {paper}\n")
        lines += ["| claim | verdict | measured | criterion | control | rival |", "|---|---|---|---|---|---|"]
        own = [e for id, e in entries.items() if CLAIMS[id].paper == paper]
        for entry in own:
            for k, (name, result, wanted, control, rival) in enumerate(measured(entry) or [("",) * 5]):
                again = " (not counted)" if CLAIMS[entry.id].uncounted else ""
                head = f"[{entry.id}](#{entry.id}){again} | `{entry.verdict}`" if k == 0 else " | "
                lines.append(f"| {head} | {name} {result} | {wanted} | {control} | {rival} |")
        lines.append("")
        for entry in own:
            lines += _claim(entry)
    return "\n".join(lines).rstrip() + "\n"


def _made(entries: Mapping[str, Entry]) -> list[str]:
    """The versions and hardware of the trials, the most frequent first."""
    used = Counter("; ".join(f"{k} {v}" for k, v in made.items()) for e in entries.values() for made in e.made_with)
    return ["Made with:\n", *(f"- {what} ({n} claims)" for what, n in used.most_common()), ""] if used else []


def _since(entries: Mapping[str, Entry]) -> list[str]:
    """The claims for which code below the ledger has changed since the run."""
    ids = [id for id, entry in entries.items() if entry.changed]
    of = ", ".join(ids) if len(ids) < 6 else f"{len(ids)} of {len(entries)} claims"
    return [f"{SINCE}code below the ledger ({of}), which need not change a number.\n"] if ids else []


def without_since(text: str) -> str:
    """A page without its remarks on the current code."""
    return "\n\n".join(part for part in text.split("\n\n") if not part.startswith(SINCE))


def _claim(entry: Entry) -> list[str]:
    claim = CLAIMS[entry.id]
    lines = [f"### {entry.id}\n", f"*{claim.sentence.replace('*', '')}* ({claim.where})\n", f"**{entry.verdict}**"]
    lines[-1] += f" ({entry.why}).\n" if entry.why else ".\n"
    if entry.id in remarks():
        lines.append(f"{remarks()[entry.id]}\n")
    if claim.uncounted:
        link = f"[{claim.repeats}](#{claim.repeats})"
        lines.append((claim.uncounted.replace(claim.repeats, link) if claim.repeats else claim.uncounted) + "\n")
    fact = facts()[entry.id]
    ratios = "; ".join(f"{name} {ours:g} of {paper:g}" for name, (ours, paper) in fact.scale.items())
    lines.append(f"`{fact.stratum}`. Paper: {fact.paper_value}." + (f" Scale: {ratios}." if ratios else ""))
    lines += ["", *(f"- Deviation: {deviation}." for deviation in fact.deviations), *([""] if fact.deviations else [])]
    lines += [f"**Pending:** {fact.pending}\n"] if fact.pending else []
    lines.append(f"Measured: {claim.measured} Control: {claim.control} Rival explanation: {fact.rival}")
    lines[-1] += f" Settings: {claim.settings} Precondition: {fact.precondition}\n"
    beside = {name: [t[name] for t in entry.told if name in t] for t in entry.told for name in t}
    if beside:
        parts = [f"{name.replace('_', ' ')} = {number(sum(v) / len(v))}" for name, v in beside.items()]
        lines.append(f"Also measured: {'; '.join(parts)}.\n")
    if entry.seen:
        lines.append(f"![{entry.id}](claims/{entry.id}.png) [table](claims/{entry.id}.csv)\n")
    return lines
