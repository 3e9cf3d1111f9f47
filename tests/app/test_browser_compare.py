"""The screen of comparisons in a real browser: every number of the committed records, and a user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inweights.app import ServerSettings
from inweights.app._records import RECORDED, Records


def test_compare_shows_every_record_as_it_is(open_page: Any) -> None:
    """Each number of the table of each committed record, and the curves of each way and measure."""
    page = open_page("compare")
    page.wait_for_selector("#compare-body table")
    records = [json.loads(path.read_text()) for path in sorted(RECORDED.glob("compare-*.json"))]
    cards = page.locator("#compare-body > section")
    assert cards.count() == len(records) > 0
    for card, record in zip(cards.all(), records, strict=True):
        assert record["setting"]["task"] in card.locator("h2").inner_text()
        table = card.locator("table").first
        rows = [[text.strip() for text in row.locator("th, td").all_inner_texts()] for row in table.locator("tr").all()]
        shown = {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:]}
        cosines = {f"overlap cosine, {name}": (values, name) for name, values in record["overlap_cosine"].items()}
        columns = {
            "accuracy": (record["accuracy"], "accuracy"),
            "accuracy over labels": (record["accuracy"], "accuracy_labels"),
            "order sensitivity": (record["order_sensitivity"], "sensitivity"),
            "token overlap": (record["token_overlap"], "token_overlap"),
            "KL": (record["kl"], "kl"),
            **cosines,
        }
        for heading, (sides, measure) in columns.items():
            wanted = {side: values[measure][0] for side, values in sides.items() if measure in values}
            got = {side: float(cells[heading].split()[0]) for side, cells in shown.items() if cells[heading]}
            assert got == pytest.approx(wanted, rel=1e-2 if min(wanted.values()) > 1e-3 else 0.06), heading
        for way in record["curves"]:
            card.get_by_role("combobox", name="Way").select_option(way)
            card.get_by_role("combobox", name="Measure").select_option("token_overlap")
            rates = {point["rate"] for point in record["curves"][way]}
            assert card.locator("svg.chart polyline").count() == len(rates) + 1
        assert card.locator(".verdict").count() == len(record["verdicts"])


def test_a_comparison_of_the_users_own_is_shown_too(tmp_path: Path) -> None:
    """Read anew at each visit, beside the committed ones; what is no comparison is left out."""
    (tmp_path / "compare-own.json").write_text((RECORDED / "compare-sst2.json").read_text())
    (tmp_path / "compare-broken.json").write_text("{")
    records = Records(ServerSettings(root=tmp_path, compare=tmp_path))
    assert [r["name"] for r in records.comparisons()][-1] == "own"
    assert len(records.comparisons()) == len(list(RECORDED.glob("*.json"))) + 1
    (tmp_path / "compare-own.json").unlink()
    assert "own" not in {r["name"] for r in records.comparisons()}
