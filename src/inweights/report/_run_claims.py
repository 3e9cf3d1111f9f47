"""The part of a report on claims: `results.jsonl` of `claims run --out`, or what `claims run --json` printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from inweights._figures import HEADER
from inweights.ledger import CLAIMS, MEANINGS, Entry, Verdict, results
from inweights.papers import load_all
from inweights.report._claims import counted, measured
from inweights.report._claims_figure import figure
from inweights.report._page import Section
from inweights.report._parts import Part, checked


def results_part(stem: str, folder: Path) -> Part:
    """The claims of `results.jsonl`, each with its figure."""
    load_all()
    entries = list(results(folder).values())
    known = [e for e in entries if e.id in CLAIMS]
    gone = sorted({e.id for e in entries} - CLAIMS.keys())
    sections = [_counts(stem, counted(known), gone)]
    tables: dict[str, Any] = {}
    for entry in known:
        section, table = _claim(entry)
        sections.append(section)
        tables |= table
    return Part(sections, tables)


def _counts(stem: str, counts: dict[str, dict[str, int]], gone: Sequence[str]) -> Section:
    shown = [v for v in Verdict if any(v in each for each in counts.values())]
    rows = [(stratum, *(str(each.get(v, "")) for v in shown)) for stratum, each in counts.items()]
    sentences = [f"{verdict}: {MEANINGS[verdict]}." for verdict in shown]
    sentences += [f"Not shown, as there are no such claims any more: {', '.join(gone)}."] if gone else []
    lead = "Verdicts are counted in strata and never added across them."
    return Section(f"Claims: {stem}", [lead, *sentences], header=("stratum", *map(str, shown)), rows=rows)


def _claim(entry: Entry) -> tuple[Section, dict[str, Any]]:
    claim, beside = entry.claim, f"report-{entry.id}.csv"
    made = figure(entry) if entry.seen else None
    of = f"{entry.trials} trials{' of a quick run' if entry.quick else ''}. {claim.uncounted}".strip()
    text = [f"{claim.sentence} ({claim.paper}, {claim.where})", *([entry.why] if entry.why else []), of]
    section = Section(
        entry.id,
        text,
        svg=made.svg() if made else "",
        verdict=str(entry.verdict),
        data_file=beside if made else "",
        header=("quantity", "measured", "criterion", "control", "rival"),
        rows=measured(entry),
    )
    return section, {beside: (HEADER, made.rows())} if made else {}


class _Quantity(TypedDict):
    measured: float | None
    interval: list[float | None]
    criterion: str
    control: float | None
    verdict: str


class _Run(TypedDict, total=False):
    id: str
    sentence: str
    verdict: str | None
    why: str
    quantities: dict[str, _Quantity]


class _Claims(TypedDict):
    claims: list[_Run]
    counts: dict[str, dict[str, int]]


def claims_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """What `claims run --json` or `claims list --json` printed."""
    read: Any = checked(_Claims, values, name)
    sections = [_counts(stem, read["counts"], ())]
    for claim in read["claims"]:
        rows = [
            (quantity, *(_text(q.get(key)) for key in ("measured", "criterion", "control", "verdict")))
            for quantity, q in claim.get("quantities", {}).items()
        ]
        text = [claim[key] for key in ("sentence", "why") if claim.get(key)]
        header = ("quantity", "measured", "criterion", "control", "verdict")
        verdict = claim.get("verdict") or "NOT-RUN"
        sections.append(Section(claim.get("id", ""), text, verdict=verdict, header=header, rows=rows))
    return Part(sections)


def _text(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.3g}"
