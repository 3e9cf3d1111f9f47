"""Claims about in-context learning and gradient descent, on a tiny model in place of SmolLM2: each measures what its
criteria are about. What a random model gives says nothing about the claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from worded import ROWS, reader

from inweights.ledger import CLAIMS, Trial, UnmetError, Verdict, criteria
from inweights.ledger._cache import Kept
from inweights.ledger._run import entry
from inweights.models import Model
from inweights.papers import _demonstrated, load_all

IDS = [id for id, c in load_all().items() if c.paper.key in ("shen", "deutch", "dai", "falck") and "smollm2" in c.needs]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A tiny model that need not be able to do its task, made-up reviews, and an empty cache."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)
    monkeypatch.setattr(_demonstrated, "task", lambda trial: "sst2")
    monkeypatch.setattr(_demonstrated, "LEAST", -1.0)
    models: dict[str, Model] = {}

    def small(self: Trial, dtype: str = "float32") -> Model:
        return models.setdefault(dtype, reader(dtype=getattr(torch, dtype)))

    monkeypatch.setattr(Trial, "language_model", small)
    _demonstrated.given.cache_clear()
    yield
    _demonstrated.given.cache_clear()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("id", IDS)
def test_a_claim_measures_what_its_criteria_are_about(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inweights.compare._martingale.REPLICATES", 20)
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: min(quick, 48) if quick == 64 else quick)
    monkeypatch.setattr(Trial, "require", lambda trial, holds, what: None)
    for name in ("order", "outputs", "accuracy"):
        monkeypatch.setattr(f"inweights.papers.not_gradient_descent.{name}.task", lambda trial: "sst2", raising=False)
    made = Kept.of(CLAIMS[id].measure(Trial(0)), "found", "", 0.0)
    assert set(made.quantities) == set(criteria()[id].quantities)
    assert entry(id, [made] * criteria()[id].seeds, quick=True).verdict is not Verdict.NOT_RUN


@pytest.mark.usefixtures("tiny")
def test_a_model_that_cannot_do_the_task_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_demonstrated, "LEAST", 1.1)
    with pytest.raises(UnmetError, match="gains too little by demonstrations of sst2"):
        CLAIMS["shen-order-icl"].measure(Trial(0))
