"""The martingale tests on rules that are known (Falck et al.)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inweights.compare import _martingale, recent
from inweights.ledger import Verdict
from inweights.ledger._judge import Judged
from inweights.papers.martingale import exact

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def test_a_bayesian_rule_passes_and_a_forgetful_one_does_not(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_martingale, "REPLICATES", 200)
    _, judged = verdict("falck-bayesian")  # three trials: too few for a verdict
    assert judged["violated"].value.value < 0.15, judged
    assert judged["violated"].why != "the control did not fail", judged
    monkeypatch.setattr(exact, "bayesian", recent)
    assert verdict("falck-bayesian", 1)[0] is Verdict.FAIL
