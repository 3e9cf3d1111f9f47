"""Whether a run of claims contradicts the record, or a control of it did not fail: what its exit code says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inweights.ledger import Criterion, Entry, Judged, Verdict


def contradicts(now: Verdict, before: Verdict, quick: bool) -> bool:
    """Whether a verdict of an exact claim says something else about its sentence than the recorded one."""
    from inweights.ledger import Verdict

    refuted = (Verdict.FAIL, Verdict.ERRATUM)
    return now is not before and not (quick and now in refuted and before in refuted)


def loose(entry: Entry, quick: bool) -> bool:
    """Whether a control did not fail, or a value is not a number."""
    from inweights.ledger import criteria

    asked = criteria()[entry.id].quantities
    return any(j.loose and not (quick and _open(asked[name], j)) for name, j in entry.quantities.items())


def _open(c: Criterion, judged: Judged) -> bool:
    """Whether the mean of a control is where it must be, and only its interval is not."""
    control = judged.control
    if c.each or control is None or not control.finite:
        return False
    return bool((c.control.holds if c.control else c.bound.misses)(control.value, control.value))
