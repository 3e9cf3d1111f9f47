"""The ledger as a static site: an index to sort and filter, one page for each claim; readable without scripts.

Its sources are the record, the facts, and `docs/registration`; nothing on it is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from inweights._files import write_atomic
from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger import CLAIMS, MEANINGS, Entry, Facts, Registered, Stratum, Verdict, facts, registered
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
  const sort = () => { rows.sort((a, b) => down * a.cells[i].textContent.localeCompare(b.cells[i].textContent));
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
        curves = (docs / "claims" / f"{id}.png").is_file() and bool(entry.seen)
        pages[f"{id}.html"] = claim_page(entry, known[id], history.get(id, []), answers.get(id, {}), curves=curves)
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
        link = f'<a href="{id}.html">{id}</a>' + (" (not counted)" if entry.claim.uncounted else "")
        data = f'data-paper="{paper.key}" data-stratum="{stratum}" data-verdict="{entry.verdict}"'
        rest = cells(
            str(entry.verdict), stratum, paper.authors or paper.title, numbers, known[id].paper_value, bare=True
        )
        rows.append(f"<tr {data}><td>{link}</td>{rest}</tr>")
    options = {
        "paper": dict.fromkeys(e.claim.paper.key for e in entries.values()),
        "stratum": dict.fromkeys(str(known[id].stratum) for id in entries),
        "verdict": dict.fromkeys(str(e.verdict) for e in entries.values()),
    }
    choices = "".join(
        f'<label>{name} <select name="{name}"><option value="">all</option>'
        + "".join(f"<option>{escape(value)}</option>" for value in values)
        + "</select></label> "
        for name, values in options.items()
    )
    more = sum(bool(e.claim.uncounted) for e in entries.values())
    header = ("claim", "verdict", "stratum", "paper", "measured", "the paper's value")
    body = [
        f"<p>{escape(INTRO)}</p>",
        "<h2>Verdicts by stratum</h2>",
        table(("stratum", *map(str, shown)), totals),
        f"<p>{more} more claims are shown and not counted; their pages say why.</p>",
        "<dl>" + "".join(f"<dt>{v}</dt><dd>{escape(text)}</dd>" for v, text in MEANINGS.items()) + "</dl>",
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
