"""The recorded results of the last full run, which are part of the package."""

from __future__ import annotations

from pathlib import Path

from inweights._errors import Problems, unknown
from inweights.ledger import Entry, read_entries
from inweights.papers._papers import load_all

RECORDED = Path(__file__).parent / "recorded.jsonl"


def recorded() -> dict[str, Entry]:
    """The recorded results, by claim."""
    load_all()
    return read_entries(RECORDED, "install inweights again")


def claims(*ids: str) -> list[Entry]:
    """The recorded results of some claims, or of all: verdicts, numbers with their intervals, criteria.

    **Example:**

    ```python
    import inweights as iw

    (entry,) = iw.claims("dherin-theorem")
    print(entry.verdict, entry.claim.where)
    # prints PASS Theorem 2.2
    ```
    """
    entries, problems = recorded(), Problems()
    for id in ids:
        problems.unless(id in entries, str(unknown("claim", id, entries)))
    problems.stop()
    return [entries[id] for id in ids] if ids else list(entries.values())
