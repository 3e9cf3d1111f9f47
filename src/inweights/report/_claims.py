"""`record` stores the results of a full run of the ledger; `page` writes them as `docs/claims.md`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from inweights._errors import InputError, Problems
from inweights._files import write_atomic
from inweights.ledger import CLAIMS, Entry, Interval, Verdict, changes, remarks, results, write_entries
from inweights.papers import RECORDED, load_all, recorded

HEAD = """# The ledger

Every claim is a program with a measurement, a criterion, and a control: the same measurement in a setting where the
claim is false, which must fail the criterion. This page is generated from the last full run (`make ledger`). `PASS` and
`FAIL` are verdicts on a sentence of a paper at the stated scale; `INCONCLUSIVE` means that the interval straddles the
criterion, that a precondition did not hold, or that the control did not fail; `NOT-RUN` means that something the claim
needs was missing. Intervals are 95% bootstrap intervals over trials (and over the units within each trial), widened by
Student's correction for few trials; for proportions they are at least as wide as Wilson's. A criterion on `each` has no
interval: the worst unit decides, and for the control the unit that comes closest to meeting the criterion.
"""

SINCE = "*Changed since:* "  # begins a line about the current code, not about the run


def record(folder: Path, docs: Path) -> None:
    """Records the results of a full run in `folder`: in the package, and in `docs/claims.md`.

    A run is refused if it is not full, or if programs have changed since. It is also refused if its criteria differ
    from those of the last record and no `[[change]]` since then states the reason.
    """
    result, before = results(folder), recorded()
    problems = Problems()
    for id in load_all():
        problems.unless(id in result, f"{id} was not run.")
        problems.unless(id not in result or not result[id].stale, f"{id}: {id in result and result[id].stale}.")
        if id in result and id in before and result[id].criteria != before[id].criteria:
            stated = result[id].changes > before[id].changes
            problems.unless(stated, f"{id}: its criteria are not those of the last record, and no [[change]] says why.")
    problems.stop()
    entries = {id: result[id] for id in load_all()}
    write_entries(RECORDED, (replace(e, plots=[]) for e in entries.values()))  # the figures' tables have the rest
    write_atomic(docs / "claims.md", page(entries))


def write_page(docs: Path) -> None:
    """Writes `docs/claims.md` from the current record, with remarks and with what has changed since the run."""
    if not recorded():
        raise InputError("There is no record of a full run yet: `make ledger` makes one.")
    load_all()
    write_atomic(docs / "claims.md", page(recorded()))


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


def measured(entry: Entry) -> list[tuple[str, str, str, str]]:
    """For each quantity of a result: its name, its value, the criterion, and the value of the control, as text."""
    return [
        (name, interval(j.value), entry.criteria[name], interval(j.control)) for name, j in entry.quantities.items()
    ]


def page(entries: Mapping[str, Entry]) -> str:
    """The text of `docs/claims.md`: all claims by paper, each with its verdict, its numbers and its figure."""
    lines = [HEAD]
    counted = [e for id, e in entries.items() if not CLAIMS[id].uncounted]
    counts = Counter(e.verdict for e in counted)
    total = ", ".join(f"{counts[v]} `{v}`" for v in Verdict if counts[v]) + f"; {len(counted)} claims"
    more = len(entries) - len(counted)
    lines += [f"{total}. {more} more are shown and not counted.\n" if more else f"{total}.\n"]
    lines += _made(entries) + _since(entries)
    papers = list(dict.fromkeys(CLAIMS[id].paper for id in entries))
    for paper in papers:
        lines.append(f"## {paper}\n")
        lines += ["| claim | verdict | measured | criterion | control |", "|---|---|---|---|---|"]
        own = [e for id, e in entries.items() if CLAIMS[id].paper == paper]
        for entry in own:
            for k, (name, result, wanted, control) in enumerate(measured(entry) or [("", "", "", "")]):
                again = " (not counted)" if CLAIMS[entry.id].uncounted else ""
                head = f"[{entry.id}](#{entry.id}){again} | `{entry.verdict}`" if k == 0 else " | "
                lines.append(f"| {head} | {name} {result} | {wanted} | {control} |")
        lines.append("")
        for entry in own:
            lines += _claim(entry)
    lines += ["## Criteria that were changed\n"]
    lines += [f"- {c.date}, `{c.claim}`: {c.was} → {c.now}. {c.reason} Seen before: {c.seen}." for c in changes()] or [
        "None."
    ]
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
    lines.append(f"Measured: {claim.measured} Control: {claim.control} Settings: {claim.settings}")
    if claim.precondition:
        lines[-1] += f" Precondition: {claim.precondition}"
    lines.append("")
    beside = {name: [t[name] for t in entry.told if name in t] for t in entry.told for name in t}
    if beside:
        parts = [f"{name.replace('_', ' ')} = {number(sum(v) / len(v))}" for name, v in beside.items()]
        lines.append(f"Also measured: {'; '.join(parts)}.\n")
    if entry.seen:
        lines.append(f"![{entry.id}](claims/{entry.id}.png) [table](claims/{entry.id}.csv)\n")
    return lines
