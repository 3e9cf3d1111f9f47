"""The ledger for readers: a figure of each claim beside its table, and the page of all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from inweights._errors import Problems
from inweights._files import write_atomic, write_csv
from inweights.claims import CLAIMS, Entry, Verdict, load_all
from inweights.claims._criteria import changes
from inweights.claims._judge import Interval, band
from inweights.claims._ledger import RECORDED
from inweights.report._figures import COLOURS, HEADER, Curve, Figure

HEAD = """# The ledger

Every claim is a program: what is measured, by which criterion, and a control, the same measurement in a world where the
claim is false, which must fail. This page is made from the last full run (`make ledger`). `PASS` and `FAIL` are
findings about a sentence of a paper at the scale that is given, `INCONCLUSIVE` means that the interval straddles the
criterion, that a precondition did not hold, or that the control did not fail. Intervals are 95% bootstrap intervals
over trials (and over the units within each), widened as Student's are because trials are few; where there is none, the
worst trial counts.
"""

STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # what lies under a line is seen through its gaps


def figure(entry: Entry) -> Figure:
    """What its trials had to show, as means with bands; or else their values beside those of the controls."""
    claim = CLAIMS[entry.id]
    colours = list(COLOURS)
    if entry.plots:
        first = entry.plots[0]
        lines = []
        for k, name in enumerate(first["lines"]):
            of_trials = torch.tensor([p["lines"][name] for p in entry.plots], dtype=torch.float64)
            middle, low, high = band(of_trials)
            lines.append(
                Curve(
                    name,
                    first["x"],
                    middle,
                    colour=colours[k % len(colours)],
                    style=STYLES[k % len(STYLES)],
                    marker="o" if len(middle) < 12 else "",
                    low=low,
                    high=high,
                )
            )
        return Figure(
            first["title"], first["x_label"], first["y_label"], lines,
            x_scale="log" if "x" in first["log"] else "linear", y_scale="log" if "y" in first["log"] else "linear",
        )  # fmt: skip
    lines = []
    for k, (name, (values, controls)) in enumerate(entry.seen.items()):
        colour = colours[k % len(colours)]
        lines.append(Curve(name, range(len(values)), values, colour, marker="o"))
        if controls is not None:
            lines.append(Curve(f"{name}, control", range(len(controls)), controls, colour, "--", marker="s"))
    numbers = [abs(y) for line in lines for y in line.y if y and math.isfinite(y)]
    wide = bool(numbers) and max(numbers) / min(numbers) > 100 and all(y >= 0 for line in lines for y in line.y)
    if wide:  # a zero has no place on a logarithmic scale
        floor = min(numbers) / 10
        lines = [Curve(c.label, c.x, [max(y, floor) for y in c.y], c.colour, c.style, marker=c.marker) for c in lines]
    return Figure(claim.id, "trial", "measured", lines, y_scale="log" if wide else "linear")


def write_figure(folder: Path, entry: Entry) -> list[Path]:
    """`ID.png` and `ID.csv`; nothing for a claim that was not run."""
    if not entry.seen:
        return []
    drawn = figure(entry)
    return [
        write_atomic(folder / f"{entry.id}.png", drawn.png()),
        write_csv(folder / f"{entry.id}.csv", HEADER, drawn.rows()),
    ]


def results(folder: Path) -> dict[str, Entry]:
    """What a run has written so far."""
    file = folder / "results.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {e.id: e for e in map(Entry.of, lines)}


def record(folder: Path, docs: Path) -> None:
    """Makes the results of a full run in `folder` the recorded ones: those in the package, and `docs/claims.md`.

    A run that is not full, or of other programs than today's, is refused.
    """
    found = results(folder)
    problems = Problems()
    for id in load_all():
        problems.unless(id in found, f"{id} was not run.")
        problems.unless(id not in found or not found[id].stale, f"{id}: {id in found and found[id].stale}.")
    problems.stop()
    entries = {id: found[id] for id in load_all()}
    lean = "".join(replace(e, plots=[]).line() + "\n" for e in entries.values())  # the figures' tables have the rest
    write_atomic(RECORDED, lean)
    write_atomic(docs / "claims.md", page(entries))


def number(value: float) -> str:
    """Three digits, whatever its size."""
    return f"{value:.3g}" if math.isfinite(value) else "not finite"


def interval(found: Interval | None) -> str:
    """A value with its interval, if it has one."""
    if found is None:
        return "–"
    if found.low == found.high:
        return number(found.value)
    return f"{number(found.value)} [{number(found.low)}, {number(found.high)}]"


def measured(entry: Entry) -> list[tuple[str, str, str, str]]:
    """For each quantity: its name, what was found, the criterion, and the control."""
    return [
        (name, interval(j.value), entry.criteria[name], interval(j.control)) for name, j in entry.quantities.items()
    ]


def page(entries: Mapping[str, Entry]) -> str:
    """`docs/claims.md`: all claims by paper, each with its verdict, its numbers and its figure."""
    lines = [HEAD]
    counted = [e for id, e in entries.items() if not CLAIMS[id].repeats]
    counts = Counter(e.verdict for e in counted)
    total = ", ".join(f"{counts[v]} `{v}`" for v in Verdict if counts[v]) + f"; {len(counted)} claims"
    more = len(entries) - len(counted)
    lines += [f"{total}. {more} more say what another one says and are not counted.\n" if more else f"{total}.\n"]
    papers = list(dict.fromkeys(CLAIMS[id].paper for id in entries))
    for paper in papers:
        lines.append(f"## {paper}\n")
        lines += ["| claim | verdict | measured | criterion | control |", "|---|---|---|---|---|"]
        own = [e for id, e in entries.items() if CLAIMS[id].paper == paper]
        for entry in own:
            for k, (name, found, wanted, control) in enumerate(measured(entry) or [("", "", "", "")]):
                again = " (repeats another)" if CLAIMS[entry.id].repeats else ""
                head = f"[{entry.id}](#{entry.id}){again} | `{entry.verdict}`" if k == 0 else " | "
                lines.append(f"| {head} | {name} {found} | {wanted} | {control} |")
        lines.append("")
        for entry in own:
            lines += _claim(entry)
    lines += ["## Criteria that were changed\n"]
    lines += [f"- {c.date}, `{c.claim}`: {c.was} → {c.now}. {c.reason} Seen before: {c.seen}." for c in changes()] or [
        "None."
    ]
    return "\n".join(lines).rstrip() + "\n"


def _claim(entry: Entry) -> list[str]:
    claim = CLAIMS[entry.id]
    lines = [f"### {entry.id}\n", f"*{claim.sentence}* ({claim.where})\n", f"**{entry.verdict}**"]
    lines[-1] += f" ({entry.why}).\n" if entry.why else ".\n"
    if claim.repeats:
        lines.append(f"Says what [{claim.repeats}](#{claim.repeats}) says; not counted.\n")
    lines.append(f"Measured: {claim.measured} Control: {claim.control} Settings: {claim.settings}")
    if claim.precondition:
        lines[-1] += f" Precondition: {claim.precondition}"
    lines.append("")
    beside = {name: [t[name] for t in entry.told if name in t] for t in entry.told for name in t}
    if beside:
        said = [f"{name.replace('_', ' ')} {number(sum(v) / len(v))}" for name, v in beside.items()]
        lines.append(f"Beside it: {', '.join(said)}.\n")
    if entry.seen:
        lines.append(f"![{entry.id}](claims/{entry.id}.png) [table](claims/{entry.id}.csv)\n")
    return lines
