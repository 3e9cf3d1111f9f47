"""The page of one claim: its verdict, the paper's value and ours, the figure of what is judged, how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from inweights.ledger import Criterion, Entry, Facts, Registered, criteria, registration, remarks
from inweights.report._claims import measured, number
from inweights.report._ledger_html import cells, document, table
from inweights.report._ledger_svg import Row, judged_figure


def claim_page(
    entry: Entry, fact: Facts, history: Sequence[Registered], response: Mapping[str, str], *, curves: bool
) -> str:
    """The page as HTML. `curves`: whether `docs/claims` has a figure of the claim too."""
    claim = entry.claim
    source = escape(f"{claim.paper}, {claim.where}")
    if claim.paper.address:
        edition = claim.paper.edition + ("" if claim.paper.version else "; version of the source not recorded")
        source += f' (<a href="{claim.paper.address}">{claim.paper.address}</a>, {escape(edition.lstrip("; "))})'
    why = f" ({entry.why})" if entry.why else ""
    body = [
        '<nav><a href="index.html">The ledger</a></nav>',
        f"<blockquote>{escape(claim.sentence)}</blockquote><p>{source}</p>",
        f"<p><strong>{entry.verdict}</strong>{escape(why)}, in the stratum <em>{fact.stratum}</em>: "
        f"{escape(fact.stratum.meaning)}.</p>",
    ]
    body += [f"<p>{escape(text)}</p>" for text in (remarks().get(entry.id, ""), claim.uncounted) if text]
    body += [f"<p><strong>Pending:</strong> {escape(fact.pending)}</p>"] if fact.pending else []
    body += ["<h2>The paper's value and ours</h2>", f"<p>Paper: {escape(fact.paper_value)}.</p>"]
    if entry.quantities:
        rows = [cells(name.replace("_", " "), *rest) for name, *rest in measured(entry)]
        body.append(table(("quantity", "ours, with its interval", "criterion", "negative control", "rival"), rows))
    needed = criteria()[entry.id].quantities
    body += [f"<figure>{_figure(entry, name, needed[name])}</figure>" for name in entry.quantities if name in needed]
    if curves:
        body.append(
            f'<figure><img alt="curves of {entry.id}" src="../claims/{entry.id}.png"><figcaption>Data: '
            f'<a href="../claims/{entry.id}.csv">{entry.id}.csv</a></figcaption></figure>'
        )
    body += _setting(entry, fact)
    body += _check(entry, history)
    if response:
        body += ["<h2>Response of the authors</h2>", *(f"<p>{escape(text)}</p>" for text in response.values())]
    return document(entry.id, body)


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
    return judged_figure(name, criterion, rows, unit)


def _setting(entry: Entry, fact: Facts) -> list[str]:
    claim, parts = entry.claim, ["<h2>Setting</h2>"]
    if fact.scale:
        rows = [cells(n, f"{a:g}", f"{b:g}", f"{a / b:.3g}") for n, (a, b) in fact.scale.items()]
        parts.append(table(("scale", "ours", "the paper's", "ratio"), rows))
    else:
        parts.append("<p>The source names no scale to compare with.</p>")
    if fact.deviations:
        listed = "".join(f"<li>{escape(each)}</li>" for each in fact.deviations)
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
    parts.append("<dl>" + "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in stated.items()) + "</dl>")
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
    parts.append(f"<p>Registered as <code>{registration(entry.claim)}</code>.</p>")
    rows = [
        cells(e.date, e.kind, e.old, f"{e.was} → {e.now}" if e.was else "", e.reason, e.seen, e.seeds) for e in history
    ]
    if rows:
        parts.append(table(("date", "entry", "old verdict", "change", "reason", "seen before", "seeds"), rows))
    return parts
