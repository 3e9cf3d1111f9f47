"""The page of changes: those since claims are registered by hash, those before, and what the history of commits has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from inweights._read import CONFIG_LIMIT, read_json, read_toml
from inweights.ledger import Entry, Registered
from inweights.report._claims import interval
from inweights.report._ledger_html import cells, document, table

SINCE = (
    "Every change of a criterion, a control, a setting or a program since claims are registered by hash; also faults "
    "of what is stated about a claim, where the claim itself is as it was."
)
EARLIER = "Changes of criteria and controls before that, oldest first."
COMMITS = (
    "From the history of commits: when the criterion of a claim was first committed, when a result of it was first "
    "recorded, and which commits changed the criterion before and after that. What had been seen in debugging, before "
    "any result was recorded, is in the entries above and on the page of each claim. Where a criterion and a result "
    "have the same commit, the history does not tell which was first. docs/registration/commits.py derives this table."
)


def changes(entries: Mapping[str, Entry], history: Mapping[str, Sequence[Registered]], folder: Path) -> str:
    """The page as HTML; `folder` is that of the registration."""
    earlier: list[dict[str, str]] = read_toml(folder / "changes.toml", "The file", limit=CONFIG_LIMIT)["change"]
    commits: dict[str, Any] = read_json(folder / "commits.json", "The file", limit=CONFIG_LIMIT)
    body = ['<nav><a href="index.html">The ledger</a></nav>', f"<p>{escape(SINCE)}</p>", _since(entries, history)]
    header = ("claim", "date", "was", "now", "reason", "seen before")
    rows = [
        f"<tr>{_link(c['claim'], entries)}{cells(*(c[k] for k in ('date', 'was', 'now', 'reason', 'seen')), bare=True)}"
        "</tr>"
        for c in earlier
    ]
    body += ["<h2>Earlier changes</h2>", f"<p>{escape(EARLIER)}</p>", table(header, rows)]
    body += ["<h2>What had been seen before which criterion</h2>", f"<p>{escape(COMMITS)}</p>"]
    return document("Changes", [*body, _commits(entries, commits)])


def _link(id: str, entries: Mapping[str, Entry]) -> str:
    """The cell of a claim, which may be gone."""
    return f'<td><a href="{id}.html">{id}</a></td>' if id in entries else cells(id, bare=True)


def _since(entries: Mapping[str, Entry], history: Mapping[str, Sequence[Registered]]) -> str:
    made = [each for of_claim in history.values() for each in of_claim if each.was]
    rows = []
    for c in sorted(made, key=lambda each: (each.date, each.claim)):
        entry = entries.get(c.claim)
        new = "deleted" if entry is None else str(entry.verdict)
        if entry is not None and entry.quantities:
            new += ": " + "; ".join(f"{n} {interval(j.value)}" for n, j in entry.quantities.items())
        texts = cells(c.date, c.old, c.reason, f"{c.was} → {c.now}", c.seen, c.seeds, new, bare=True)
        rows.append(f"<tr>{_link(c.claim, entries)}{texts}</tr>")
    return table(("claim", "date", "old verdict", "fault", "change", "seen before", "seeds", "verdict now"), rows)


def _commits(entries: Mapping[str, Entry], commits: Mapping[str, Any]) -> str:
    """One row for each claim of the record."""
    rows = []
    for id in entries:
        own = commits.get(id, {"criterion": None, "result": None, "changed": []})
        parts = [" ".join(reversed(own[name])) if own[name] else "–" for name in ("criterion", "result")]
        for after in (False, True):
            made = [f"{c['date']} {c['commit']}" for c in own["changed"] if c["after_a_result"] is after]
            parts.append(", ".join(made) or "–")
        rows.append(f"<tr>{_link(id, entries)}{cells(*parts, bare=True)}</tr>")
    header = ("claim", "criterion committed", "result recorded", "changed before any result", "changed after a result")
    return table(header, rows)
