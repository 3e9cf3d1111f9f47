"""The page of changes: those since claims are registered by hash, those before, and what the history of commits has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from inweights._read import CONFIG_LIMIT, read_json, read_json_lines, read_toml
from inweights.ledger import Entry, Registered
from inweights.report._claims import interval
from inweights.report._ledger_html import cells, document, table

SINCE = (
    "Every change of a criterion, a control, a setting or a program since claims are registered by hash, with the "
    "verdict before and now; also faults of what is stated about a claim, where the claim itself is as it was."
)
SAME = "Programs whose code changed and whose numbers did not, each with the proof."
FIRST = "What had been seen of a claim when it was first registered by hash, where anything had been."
EARLIER = "Changes of criteria and controls before that, oldest first."
COMMITS = (
    "From the history of commits: when the criterion of a claim was first committed, when a result of it was first "
    "recorded, which commits changed the criterion before and after that, and the commit with which the result that "
    "is recorded now was computed. What had been seen in debugging, before any result was recorded, is in the entries "
    "above and on the page of each claim. Where a criterion and a result have the same commit, the history does not "
    "tell which was first. docs/registration/commits.py derives this table."
)
REWRITTEN = (
    "The register should only grow. From the history of commits, its lines that were changed or removed later. "
    "Every result of the record is of a hash that the register still has."
)
RUN = {
    "registered": "a commit where the claim was registered by the hash with which it is judged",
    "before": "a commit from before claims were registered by hash",
    "unknown": "a commit that the history does not have",
    "not": "a commit where the claim was not registered as it is judged",
}


def changes(entries: Mapping[str, Entry], history: Mapping[str, Sequence[Registered]], folder: Path) -> str:
    """The page as HTML; `folder` is that of the registration."""
    earlier: list[dict[str, str]] = read_toml(folder / "changes.toml", "The file", limit=CONFIG_LIMIT)["change"]
    commits: dict[str, Any] = read_json(folder / "commits.json", "The file", limit=CONFIG_LIMIT)
    gone = [each for _, each in read_json_lines(folder / "rewritten.jsonl", "The file", limit=CONFIG_LIMIT)]
    made = sorted((e for of in history.values() for e in of), key=lambda e: (e.date, e.claim))
    header = ("claim", "date", "was", "now", "reason", "seen before", "verdict now")
    rows = [
        _row(c["claim"], entries, *(c[k] for k in ("date", "was", "now", "reason", "seen")), _now(c["claim"], entries))
        for c in earlier
    ]
    body = [
        '<nav><a href="index.html">The ledger</a></nav>',
        *_part("Corrections and other changes", SINCE, _since(entries, [e for e in made if e.was])),
        *_part("Refactorings", SAME, _refactored(entries, [e for e in made if e.proof])),
        *_part("Seen before the first registration", FIRST, _first(entries, [e for e in made if e.kind == "first"])),
        *_part("Earlier changes", EARLIER, table(header, rows)),
        *_part("What had been seen before which criterion", COMMITS, _summary(entries, commits)),
        _commits(entries, commits),
        *_part("Lines of the register that were changed", REWRITTEN, _rewritten(gone)),
    ]
    return document("Changes", body)


def _part(title: str, text: str, content: str) -> list[str]:
    return [f"<h2>{title}</h2>", f"<p>{escape(text)}</p>", content]


def _row(id: str, entries: Mapping[str, Entry], *texts: str) -> str:
    """A row that begins with a claim, which may be gone."""
    link = f'<td><a href="{id}.html">{id}</a></td>' if id in entries else cells(id, bare=True)
    return f"<tr>{link}{cells(*texts, bare=True)}</tr>"


def _now(id: str, entries: Mapping[str, Entry]) -> str:
    """The verdict of the record, with its numbers."""
    if id not in entries:
        return "deleted"
    numbers = "; ".join(f"{n.replace('_', ' ')} {interval(j.value)}" for n, j in entries[id].quantities.items())
    return str(entries[id].verdict) + (f": {numbers}" if numbers else "")


def _since(entries: Mapping[str, Entry], made: Iterable[Registered]) -> str:
    rows = [
        _row(c.claim, entries, c.date, c.old, c.reason, f"{c.was} → {c.now}", c.seen, c.seeds, _now(c.claim, entries))
        for c in made
    ]
    return table(("claim", "date", "old verdict", "fault", "change", "seen before", "seeds", "verdict now"), rows)


def _refactored(entries: Mapping[str, Entry], made: Iterable[Registered]) -> str:
    return table(
        ("claim", "date", "change", "proof"), [_row(c.claim, entries, c.date, c.reason, c.proof) for c in made]
    )


def _first(entries: Mapping[str, Entry], made: Iterable[Registered]) -> str:
    rows = [_row(c.claim, entries, c.date, c.seen, _now(c.claim, entries)) for c in made if c.seen]
    return table(("claim", "date", "seen before", "verdict now"), rows)


def _summary(entries: Mapping[str, Entry], commits: Mapping[str, Any]) -> str:
    """How many claims have what, in one paragraph."""
    own = [commits[id] for id in entries if id in commits]
    measured = [c for c in own if c["result"]]
    together = sum(c["criterion"] == c["result"] for c in measured)
    after = sum(any(change["after_a_result"] for change in c["changed"]) for c in own)
    runs = Counter(state for c in own for _, state in c["run"])
    parts = [
        f"Of {len(own)} claims, {len(measured)} have had a result.",
        f"The criterion of {len(measured) - together} of these was committed before the first result was recorded, "
        f"that of {together} together with it; {after} were changed after a result, each by an entry above.",
        "Of the results in the record "
        + ", ".join(f"{runs[k]} are of {text}" for k, text in RUN.items() if runs[k])
        + ".",
    ]
    return f"<p>{escape(' '.join(parts))}</p>"


def _commits(entries: Mapping[str, Entry], commits: Mapping[str, Any]) -> str:
    """One row for each claim of the record."""
    rows = []
    for id in entries:
        own = commits.get(id, {"criterion": None, "result": None, "changed": [], "run": []})
        parts = [" ".join(reversed(own[name])) if own[name] else "–" for name in ("criterion", "result")]
        for after in (False, True):
            made = [f"{c['date']} {c['commit']}" for c in own["changed"] if c["after_a_result"] is after]
            parts.append(", ".join(made) or "–")
        parts.append("; ".join(f"{commit}, {RUN[state]}" for commit, state in own["run"]) or "–")
        rows.append(_row(id, entries, *parts))
    header = ("claim", "criterion committed", "result recorded", "changed before any result", "changed after a result")
    return table((*header, "the record is of"), rows)


def _rewritten(gone: Iterable[Mapping[str, Any]]) -> str:
    """One row for each commit and kind of difference, with the claims."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in gone:
        what = f"changed: {', '.join(each['differs'])}" if each["differs"] else "removed, with the change itself"
        groups.setdefault((each["date"], each["commit"], each["kind"], what), []).append(each["claim"])
    rows = [cells(*key, ", ".join(claims)) for key, claims in groups.items()]
    return table(("date", "commit", "entry", "what", "claims"), rows)
