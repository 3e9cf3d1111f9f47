"""The table of samplers of posteriors: each of its numbers is that of the record."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from statistics import fmean
from typing import Any

import pytest

from inweights.ledger import Entry
from inweights.papers import load_all, recorded
from inweights.report._posteriors import KINDS, METHODS, REFERENCE, SCENARIOS, posteriors


def shown(page: str) -> list[list[str]]:
    """The cells of each row of the table's body."""
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    return [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", body, re.DOTALL)]


@pytest.fixture(scope="module")
def entries() -> dict[str, Entry]:
    load_all()
    return dict(recorded())


def test_every_number_is_that_of_the_record(entries: dict[str, Entry]) -> None:
    """Against the lines of the file, to three decimals."""
    lines = (files("inweights") / "papers" / "recorded.jsonl").read_text(encoding="utf-8").splitlines()
    record: dict[str, Any] = {e["id"]: e for e in map(json.loads, lines)}
    rows = shown(posteriors(entries))
    assert len(rows) == len(METHODS)
    for (first, *rest), (method, name) in zip(rows, METHODS.items(), strict=True):
        assert first.replace("&#x27;", "'") == name
        places = [(scenario, kind) for scenario in SCENARIOS for kind in KINDS]
        for cell, (scenario, kind) in zip(rest, places, strict=True):
            own = method in ("NUTS", "exact")
            trials = record.get(REFERENCE if own else f"reuter-{scenario}", {"told": []})["told"]
            key = f"{kind}, {method}, {scenario}" if own else f"{kind}, {method}"
            wanted = fmean(t[key] for t in trials) if trials else None
            assert cell.split(" ")[0] == (f"{wanted:.3f}" if wanted is not None else "not"), (method, scenario, kind)


def test_another_record_is_another_table(entries: dict[str, Entry]) -> None:
    entry = entries["reuter-mixture"]
    changed = [trial | {"W2, flow": trial["W2, flow"] + 1} for trial in entry.told]
    before, after = (shown(posteriors(each)) for each in (entries, entries | {entry.id: replace(entry, told=changed)}))
    place = (list(METHODS).index("flow"), 1 + len(KINDS) * list(SCENARIOS).index("mixture") + KINDS.index("W2"))
    differ = [(i, j) for i, row in enumerate(before) for j, cell in enumerate(row) if cell != after[i][j]]
    assert differ == [place]
    assert "not measured" in str(shown(posteriors({})))
