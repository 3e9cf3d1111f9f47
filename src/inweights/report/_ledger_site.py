"""The ledger as a static site: an index to sort and filter, one page for each claim; readable without scripts.

Its sources are the record, the facts, and `docs/registration`; nothing on it is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from inweights._files import write_atomic
from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger import (
    CLAIMS,
    MEANINGS,
    Entry,
    Facts,
    Registered,
    Stratum,
    Verdict,
    facts,
    registered,
    registration,
)
from inweights.papers import load_all, recorded
from inweights.report._claims import counted, measured
from inweights.report._ledger_changes import changes
from inweights.report._ledger_claim import claim_page
from inweights.report._ledger_html import cells, document, table
from inweights.report._posteriors import posteriors

INTRO = (
    "Each claim is a sentence of a paper as a program. A negative control, the same measurement where the sentence is "
    "false, decides the verdict; a rival explanation, something else that would produce the same result, decides what "
    "it is evidence of. Verdicts are counted in strata and never added across them."
)
STATISTICS = (
    "Intervals have 95%. Ratios are judged by the mean of their logarithms; where a sentence says that two things are "
    "equal, the interval has to lie between two bounds, an equivalence test. A criterion on every single one has no "
    "interval: the worst unit decides. Multiple testing: a claim passes only if all its quantities do, which needs no "
    "correction; before one of several may fail it, intervals are widened. There is no correction across claims: each "
    "verdict stands alone. The rates of wrong verdicts are tested on simulated claims with a known truth on the bound, "
    "at most 5% of each kind."
)
RESPOND = (
    "Authors of a paper can respond to any claim: open an issue in the project's repository that names the claim, or a "
    "pull request that adds the response to docs/registration/responses.toml. A response is shown on the claim's page "
    "as it was written. Where it shows a fault, the criterion, the setting or the program is changed by a registered "
    "entry that states the old verdict, the fault and what had been seen, and the claim is run again with new seeds."
)
SCRIPT = """
const rows = [...document.querySelectorAll('#claims tbody tr')], form = document.getElementById('filter');
form.hidden = false;
const show = () => { const f = new FormData(form); let n = 0; rows.forEach(r => {
  r.hidden = [...f].some(([k, v]) => v && r.dataset[k] !== v); n += !r.hidden; });
  document.getElementById('shown').textContent = n + ' of ' + rows.length; };
form.addEventListener('input', show); show();
document.querySelectorAll('#claims th').forEach((th, i) => { th.tabIndex = 0; let down = 1;
  const sort = () => { rows.sort((a, b) => down * a.cells[i].textContent.localeCompare(b.cells[i].textContent, 'en',
      {numeric: true}));
    document.querySelectorAll('#claims th').forEach(other => other.removeAttribute('aria-sort'));
    th.setAttribute('aria-sort', down > 0 ? 'ascending' : 'descending');
    down = -down; rows.forEach(r => r.parentNode.append(r)); };
  th.addEventListener('click', sort);
  th.addEventListener('keydown', e => { if (e.key === 'Enter') sort(); }); });
"""


def write_site(docs: Path) -> None:
    """Writes `docs/ledger` from the record and the registration, and removes pages of claims that are gone."""
    for name, text in site(docs).items():
        (docs / "ledger").mkdir(exist_ok=True)
        write_atomic(docs / "ledger" / name, text)
    for path in (docs / "ledger").glob("*.html"):
        if path.stem not in ("index", "changes", "posteriors") and path.stem not in CLAIMS:
            path.unlink()


def site(docs: Path) -> dict[str, str]:
    """The pages by file name."""
    load_all()
    entries, known = recorded(), facts()
    history: dict[str, list[Registered]] = {}
    for each in registered(docs / "registration"):
        history.setdefault(each.claim, []).append(each)
    path = docs / "registration" / "responses.toml"
    answers = read_toml(path, "The file", limit=CONFIG_LIMIT) if path.is_file() else {}
    pages = {"index.html": _index(entries, known), "changes.html": changes(entries, history, docs / "registration")}
    pages["posteriors.html"] = posteriors(entries)
    for id, entry in entries.items():
        data = docs / "claims" / f"{id}.csv"
        pages[f"{id}.html"] = claim_page(entry, known[id], history.get(id, []), answers.get(id, {}), data)
    return pages


def _index(entries: Mapping[str, Entry], known: Mapping[str, Facts]) -> str:
    counts = counted(entries.values())
    shown = [v for v in Verdict if any(v in each for each in counts.values())]
    totals = [
        cells(f"{stratum}: {Stratum(stratum).meaning}", *(str(each.get(v, "")) for v in shown))
        for stratum, each in counts.items()
    ]
    rows = []
    for id, entry in entries.items():
        paper, stratum = entry.claim.paper, known[id].stratum
        numbers = "; ".join(f"{name.replace('_', ' ')} {value}" for name, value, *_ in measured(entry))
        marks = ["not counted"] * bool(entry.claim.uncounted) + ["pending"] * bool(known[id].pending)
        marks += ["changed since"] * bool(entry.quantities and entry.registered != registration(entry.claim))
        link = f'<a href="{id}.html">{id}</a>' + (f" ({', '.join(marks)})" if marks else "")
        data = f'data-paper="{paper.key}" data-stratum="{stratum}" data-verdict="{entry.verdict}"'
        rest = cells(
            str(entry.verdict), stratum, paper.authors or paper.title, numbers, known[id].paper_value, bare=True
        )
        rows.append(f"<tr {data}><td>{link}</td>{rest}</tr>")
    papers = (e.claim.paper for e in entries.values())
    options: dict[str, dict[str, str]] = {
        "paper": {paper.key: paper.authors or paper.title for paper in papers},
        "stratum": {name: name for name in (str(known[id].stratum) for id in entries)},
        "verdict": {name: name for name in (str(e.verdict) for e in entries.values())},
    }
    choices = "".join(
        f'<label>{name} <select name="{name}"><option value="">all</option>'
        + "".join(f'<option value="{value}">{escape(text)}</option>' for value, text in values.items())
        + "</select></label> "
        for name, values in options.items()
    )
    more = sum(bool(e.claim.uncounted) for e in entries.values())
    header = ("claim", "verdict", "stratum", "paper", "measured", "the paper's value")
    body = [
        f"<p>{escape(INTRO)}</p>",
        "<h2>Verdicts by stratum</h2>",
        table(("stratum", *map(str, shown)), totals),
        f"<p>{more} more claims are shown and not counted; their pages say why. Of claims that are "
        "pending, the page says what is missing.</p>",
        "<dl>" + "".join(f"<dt>{v}</dt><dd>{escape(text)}</dd>" for v, text in MEANINGS.items()) + "</dl>",
        f"<p>{escape(STATISTICS)}</p>",
        "<h2>Claims</h2>",
        f'<form id="filter" hidden>{choices}<span id="shown"></span></form>',
        table(header, rows, name="claims"),
        '<p><a href="changes.html">All changes of criteria and programs</a>, with the verdicts before them, and what '
        "had been seen before which criterion, from the history of commits</p>",
        '<p><a href="posteriors.html">Samplers of posteriors</a>: NUTS, a flow in context, variational inference and '
        "Laplace's method by three distances</p>",
        f"<h2>How an author can respond</h2><p>{escape(RESPOND)}</p>",
        "<h2>How to cite</h2><p>CITATION.cff in the root of the repository has the citation of this software; cite the "
        "commit and the hash of a claim's registration, which are on its page, for a verdict.</p>",
        f"<script>{SCRIPT}</script>",
    ]
    return document("The ledger", body)
