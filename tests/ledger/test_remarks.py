"""Remarks on verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from inweights.ledger import CLAIMS, remarks, run_claims
from inweights.ledger._remarks import remarks_file
from inweights.papers import load_all
from inweights.papers._papers import DHERIN
from inweights.report._claims import page


def test_every_remark_is_of_a_claim() -> None:
    assert set(remarks()) <= set(load_all())
    assert all(remarks().values())


def test_remarks_are_on_the_page(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(remarks_file(DHERIN.folder), "test-claim", {"why": "Because."})
    (entry,) = run_claims([CLAIMS["test-claim"]], quick=True)
    assert "**PASS**.\n\nBecause.\n" in page({"test-claim": entry})
