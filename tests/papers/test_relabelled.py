"""Demonstrations with other labels: how they are made, and what claims conclude from models that learn, or recognise.
A tiny random model stands in for SmolLM2, so that what it answers says nothing about the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from worded import ROWS, reader, reviews

from inweights.compare import Shots
from inweights.ledger import CLAIMS, Trial, Verdict, criteria
from inweights.ledger._cache import Kept
from inweights.ledger._judge import Judged
from inweights.models import Model
from inweights.papers import _relabelled
from inweights.papers._relabelled import flipped, hits, other, renamed, shuffled, without
from inweights.papers.few_shot_learners import claims as few_shot_learners
from inweights.papers.larger_models import claims as larger_models
from inweights.papers.role_of_demonstrations import claims as role_of_demonstrations

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
IDS = ["brown-few-shot", "min-random-labels", "wei-flipped-labels", "wei-unrelated-labels"]
WORDS = 24
"""Queries of tasks of words in a quick trial, by which stand-ins tell them from reviews."""


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tiny model and made-up reviews, also in place of words."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)
    monkeypatch.setattr(_relabelled, "NOVEL", (" moves", " drags"))  # words that the tiny model knows
    monkeypatch.setattr(larger_models, "NOVEL", (" moves", " drags"))
    model = reader(dtype=torch.float32)
    monkeypatch.setattr(Trial, "language_model", lambda trial, dtype="float32": model)


def truths(shown: Shots) -> list[str]:
    return [answer for _, answer in shown.texts]


def learned(model: Model, shown: Shots) -> Tensor:
    """What the demonstrations say of each query's label, by majority."""
    names, n = truths(shown), len(shown)
    seen = Counter((name, label[0]) for name, label in zip(names, shown.answered, strict=False))
    return torch.tensor([max(shown.labels.tolist(), key=lambda t: seen[name, t]) for name in names[n:]])


def recognised(model: Model, shown: Shots) -> Tensor:
    """The right label of reviews, whatever is shown, or a wrong one if it has no meaning; words are learned."""
    if len(shown.queries) == WORDS:
        return learned(model, shown)
    known = {model.tokenizer(f" {label}")["input_ids"][0] for label in ("positive", "negative")}
    return shown.right if set(shown.labels.tolist()) <= known else other(shown, shown.right)


# --- how they are made --------------------------------------------------------------------------------------------


def test_labels_are_exchanged_or_put_in_another_order() -> None:
    shown = reviews(reader(), 8, 6)
    turned = flipped(shown)
    assert all(a != b for a, b in zip(shown.answered, turned.answered, strict=True))
    assert flipped(turned).answered == shown.answered
    mixed = shuffled(shown, torch.Generator().manual_seed(1))
    assert Counter(mixed.answered) == Counter(shown.answered)
    assert mixed.answered != shown.answered
    assert (turned.asked, mixed.asked) == (shown.asked, shown.asked)
    assert torch.equal(other(shown, other(shown, shown.right)), shown.right)
    assert not (other(shown, shown.right) == shown.right).any()


def test_labels_get_other_names() -> None:
    model = reader()
    shown = reviews(model, 8, 30)
    new = renamed(model, shown, (" moves", " drags"))
    assert not set(new.labels.tolist()) & set(shown.labels.tolist())
    of_queries = zip(shown.right.tolist(), new.right.tolist(), strict=True)
    of_shown = ((old[0], label[0]) for old, label in zip(shown.answered, new.answered, strict=True))
    assert len({*of_queries, *of_shown}) == 2  # one new name for each label


def test_answers_are_counted_by_the_label_that_is_wanted() -> None:
    model = reader(dtype=torch.float32)
    shown = reviews(model, 4, 6)
    result = hits(model, shown)
    assert result.shape == (6,)
    torch.testing.assert_close(result + hits(model, shown, other(shown, shown.right)), torch.ones(6).double())
    assert set(without(model, shown).tolist()) <= {0.0, 1.0}


# --- what claims conclude -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("id", IDS)
def test_a_claim_measures_what_its_criteria_are_about(id: str) -> None:
    made = Kept.of(CLAIMS[id].measure(Trial(0)), "found", "", 0.0)
    assert set(made.quantities) == set(criteria()[id].quantities)
    assert set(made.rivals) == {name for name, c in criteria()[id].quantities.items() if c.rival}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("id", IDS[1:])
def test_a_model_that_recognises_and_one_that_learns(id: str, verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(larger_models, "without", lambda model, shown: torch.ones(len(shown.queries)).double())
    monkeypatch.setattr(_relabelled, "answered", recognised)
    result, judged = verdict(id)
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(_relabelled, "answered", learned)
    result, judged = verdict(id)
    # Labels in a random order can be right by chance, and then say nothing.
    assert result is not Verdict.PASS if id == "min-random-labels" else result is Verdict.FAIL, judged


@pytest.mark.usefixtures("tiny")
def test_a_task_that_only_its_own_demonstrations_show(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_or_none(model: Model, shown: Shots) -> Tensor:
        (own,) = (s for s in made.values() if s.queries == shown.queries)
        same = (own.asked, own.answered) == (shown.asked, shown.answered)
        return torch.full((len(shown.queries),), float(same), dtype=torch.float64)

    monkeypatch.setattr(few_shot_learners, "without", lambda model, shown: torch.zeros(len(shown.queries)).double())
    monkeypatch.setattr(few_shot_learners, "drawn", lambda trial, model, name, queries: made[name])
    model = reader(dtype=torch.float32)
    made = {"past-tense": reviews(model, 7, WORDS, 1), "plurals": reviews(model, 5, WORDS, 2)}
    monkeypatch.setattr(few_shot_learners, "hits", all_or_none)
    assert verdict("brown-few-shot")[0] is Verdict.PASS
    monkeypatch.setattr(few_shot_learners, "hits", lambda model, shown: torch.zeros(len(shown.queries)).double())
    assert verdict("brown-few-shot")[0] is Verdict.FAIL
    # If any demonstrations help as much, the gain is no evidence of a task that was learned from them.
    helps = {s.answered for s in made.values()}
    monkeypatch.setattr(
        few_shot_learners,
        "hits",
        lambda model, shown: torch.full((len(shown.queries),), float(shown.answered in helps), dtype=torch.float64),
    )
    assert verdict("brown-few-shot")[0] is Verdict.HOLDS_NOT_DIAGNOSTIC


def test_a_missing_data_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from inweights._errors import InputError
    from inweights.ledger import NotHereError

    def missing(*_: object) -> Shots:
        raise InputError("no such file")

    monkeypatch.setattr(_relabelled, "shots", missing)
    with pytest.raises(NotHereError, match="no such file"):
        _relabelled.drawn(Trial(0), reader(), "sst2", 4)
    assert role_of_demonstrations.drawn is _relabelled.drawn
