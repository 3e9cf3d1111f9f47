"""The page that compares methods of sampling a posterior, NUTS among them, from what claims report besides verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from inweights.ledger import Entry
from inweights.report._ledger_html import cells, document, table

SCENARIOS = {"glm": "linear regression", "factor": "factor analysis", "mixture": "mixture"}
KINDS = ("C2ST", "MMD", "W2")
METHODS = {
    "flow": "a flow, in context",
    "mean-field": "variational inference, mean-field",
    "full rank": "variational inference, full rank",
    "Laplace": "Laplace's method",
    "NUTS": "NUTS (NumPyro)",
    "exact": "exact samples, another set",
}
REFERENCE = "reuter-reference"
INTRO = (
    "Distances of samples from those of the posterior: the accuracy of a classifier that tells them apart (C2ST, 0.5 "
    "if it cannot), the squared maximum mean discrepancy (MMD) and Wasserstein's distance (W2). Means over trials, "
    "with the least and the largest one. References are samples of NUTS for the linear regression, where it is not "
    "itself compared, and otherwise exact ones on a grid; the last row is what two sets of exact samples differ by. No "
    "verdict depends on this table; the claims that it is from state their settings."
)


def told(entries: Mapping[str, Entry], method: str, kind: str, scenario: str) -> list[float]:
    """What the trials report about a method; empty if they do not."""
    own = method in ("NUTS", "exact")
    id, name = (REFERENCE, f"{kind}, {method}, {scenario}") if own else (f"reuter-{scenario}", f"{kind}, {method}")
    return [trial[name] for trial in entries[id].told if name in trial] if id in entries else []


def posteriors(entries: Mapping[str, Entry]) -> str:
    """The page as HTML."""
    header = ("method", *(f"{kind}, {shown}" for shown in SCENARIOS.values() for kind in KINDS))
    rows = [
        cells(shown, *(_cell(told(entries, method, kind, scenario)) for scenario in SCENARIOS for kind in KINDS))
        for method, shown in METHODS.items()
    ]
    ids = [id for id in (*(f"reuter-{name}" for name in SCENARIOS), REFERENCE) if id in entries]
    links = ", ".join(f'<a href="{id}.html">{id}</a>' for id in ids)
    nav = '<nav><a href="index.html">The ledger</a></nav>'
    return document("Samplers of posteriors", [nav, f"<p>{INTRO}</p>", table(header, rows), f"<p>From {links}.</p>"])


def _cell(values: list[float]) -> str:
    return f"{fmean(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else "not measured"
