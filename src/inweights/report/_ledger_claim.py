"""The page of one claim: its verdict, the paper's value and ours, the figure of what is judged, how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path

from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger import Criterion, Entry, Facts, Registered, criteria, registration, remarks
from inweights.report._claims import measured, number
from inweights.report._ledger_html import cells, document, prose, table
from inweights.report._ledger_pairs import PAIRS, pairs_figure
from inweights.report._ledger_svg import Row, in_words, judged_figure

AXES = Path(__file__).with_name("axes.toml")


def claim_page(
    entry: Entry, fact: Facts, history: Sequence[Registered], response: Mapping[str, str], data: Path
) -> str:
    """The page as HTML. `data`: the table of the claim in `docs/claims`, where there is a figure of curves too."""
    claim = entry.claim
    source = escape(f"{claim.paper}, {claim.where}")
    if claim.paper.address:
        edition = claim.paper.edition + ("" if claim.paper.version else "; version of the source not recorded")
        source += f' (<a href="{claim.paper.address}">{claim.paper.address}</a>, {escape(edition.lstrip("; "))})'
    why = f" ({prose(entry.why)})" if entry.why else ""
    body = [
        '<nav><a href="index.html">The ledger</a></nav>',
        f"<blockquote>{prose(claim.sentence)}</blockquote><p>{source}</p>",
        f"<p><strong>{entry.verdict}</strong>{why}, in the stratum <em>{fact.stratum}</em>: "
        f"{escape(fact.stratum.meaning)}.</p>",
    ]
    body += [f"<p>{prose(text)}</p>" for text in (remarks().get(entry.id, ""), claim.uncounted) if text]
    body += [f"<p><strong>Pending:</strong> {prose(fact.pending)}</p>"] if fact.pending else []
    body += ["<h2>The paper's value and ours</h2>", f"<p>Paper: {prose(fact.paper_value)}.</p>"]
    needed = criteria()[entry.id].quantities
    numbers = measured(entry) or [(name, "not measured", str(c), "–", "–") for name, c in needed.items()]
    rows = [cells(name.replace("_", " "), *rest) for name, *rest in numbers]
    body.append(table(("quantity", "ours, with its interval", "criterion", "negative control", "rival"), rows))
    body += [_figure(entry, name, needed[name]) for name in entry.quantities if name in needed]
    if entry.id in PAIRS and (drawn := pairs_figure(PAIRS[entry.id], entry.told)):
        body.append(f"<figure>{drawn}<figcaption>circles: each trial</figcaption></figure>")
    if entry.seen and data.is_file():
        link = f'Data: <a href="../claims/{data.name}">{data.name}</a>'
        image = f'<img alt="curves of {entry.id}" src="../claims/{entry.id}.png">'
        body.append(f"<figure>{image}<figcaption>{link}</figcaption></figure>" if of_curves(data) else f"<p>{link}</p>")
    body += _setting(entry, fact)
    body += _check(entry, history)
    if response:
        body += ["<h2>Response of the authors</h2>", *(f"<p>{escape(text)}</p>" for text in response.values())]
    return document(entry.id, body)


@cache
def axes() -> dict[str, dict[str, str]]:
    """What the axis of each quantity shows, by claim."""
    return read_toml(AXES, "The file", limit=CONFIG_LIMIT)


def of_curves(data: Path) -> bool:
    """Whether a table is of curves, and not of the numbers of trials, which the page shows anyway."""
    return ", bound of the value" not in data.read_text(encoding="utf-8")


def _figure(entry: Entry, name: str, criterion: Criterion) -> str:
    judged, (values, controls) = entry.quantities[name], entry.seen[name]
    rows = [Row("value", values, judged.value)]
    rows += [Row("negative control", controls, judged.control)] if controls else []
    rows += [Row("rival explanation", entry.rivals[name], judged.rival)] if name in entry.rivals else []
    if criterion.each:
        unit = "circles: the mean of each trial; diamond: the unit that decides, the worst of the value"
    else:
        kind = "geometric mean" if criterion.scale else "mean"
        unit = f"circles: each trial; diamond and line: the {kind} with its 95% interval"
    words = name.replace("_", " ")
    drawn = judged_figure(f"{words}: {in_words(criterion)}", criterion, rows, axes()[entry.id][name])
    return f"<figure>{drawn}<figcaption>{unit}; shaded: meets the criterion</figcaption></figure>"


def _setting(entry: Entry, fact: Facts) -> list[str]:
    claim, parts = entry.claim, ["<h2>Setting</h2>"]
    if fact.scale:
        rows = [cells(n, f"{a:g}", f"{b:g}", f"{a / b:.3g}") for n, (a, b) in fact.scale.items()]
        parts.append(table(("scale", "ours", "the paper's", "ratio"), rows))
    else:
        parts.append("<p>The source names no scale to compare with.</p>")
    if fact.deviations:
        listed = "".join(f"<li>{prose(each)}</li>" for each in fact.deviations)
        parts.append(f"<p>Deviations from the paper's setting:</p><ul>{listed}</ul>")
    else:
        parts.append("<p>No deviation from the paper's setting is known.</p>")
    stated = {
        "Measured": claim.measured,
        "Negative control": claim.control,
        "Rival explanation": fact.rival,
        "Settings": claim.settings,
        "Precondition": fact.precondition,
    }
    parts.append("<dl>" + "".join(f"<dt>{k}</dt><dd>{prose(v)}</dd>" for k, v in stated.items()) + "</dl>")
    beside = {name: [t[name] for t in entry.told if name in t] for t in entry.told for name in t}
    if beside:
        listed = "; ".join(f"{name.replace('_', ' ')} = {number(sum(v) / len(v))}" for name, v in beside.items())
        parts.append(f"<p>Also measured: {escape(listed)}.</p>")
    return parts


def _check(entry: Entry, history: Sequence[Registered]) -> list[str]:
    trials = criteria()[entry.id].trials
    seeds = f"seeds {trials[0]} to {trials[-1]}" if len(trials) > 1 else f"seed {trials[0]}"
    parts = ["<h2>How to check</h2>", f"<p><code>inweights claims run {entry.id}</code>, {seeds}</p>"]
    parts += [f"<p>Made with {escape('; '.join(f'{k} {v}' for k, v in made.items()))}.</p>" for made in entry.made_with]
    now = registration(entry.claim)
    parts.append(f"<p>Registered as <code>{now}</code>.</p>")
    if entry.quantities and entry.registered != now:
        parts.append(
            f"<p><strong>The result is of the registration before, <code>{entry.registered}</code>:</strong> the "
            "claim was changed since, and is to be run again.</p>"
        )
    rows = [
        cells(e.date, e.kind, e.old, f"{e.was} → {e.now}" if e.was else e.proof, e.reason, e.seen, e.seeds)
        for e in history
    ]
    if rows:
        parts.append(table(("date", "entry", "old verdict", "change or proof", "reason", "seen before", "seeds"), rows))
    return parts
