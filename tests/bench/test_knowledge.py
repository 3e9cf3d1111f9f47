"""The benchmark of what a fold knows has the columns that scripts rely on, and goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from talking import talker

from inweights import InputError
from inweights.bench import _cases, knowledge
from inweights.bench._cases import BRIEF, register_case, squad_cases
from inweights.data import Document, MultipleChoice
from inweights.folding import choice_accuracy


def test_rows_pool_the_registers_of_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights know nothing: what is checked is that every column is measured, and once."""
    calls = []
    model = talker()
    model.model.config.max_position_embeddings = 8192
    monkeypatch.setattr(knowledge, "SEEDS", (10,))
    monkeypatch.setattr("inweights.folding._recall.NEW", 8)  # answers of random weights do not end
    monkeypatch.setattr(knowledge, "load", lambda *_, **__: model)
    monkeypatch.setattr(knowledge, "ASKED", {"cpu": 8, "cuda": 8})
    monkeypatch.setattr(knowledge, "multiple_choice", lambda name, count: [MultipleChoice("Two?", ("2", "three"), 0)])
    monkeypatch.setattr(knowledge, "unrelated_passages", lambda count: ["The river rose in the night."])
    real = knowledge.measured
    monkeypatch.setattr(knowledge, "measured", lambda *args: calls.append(args) or real(*args))
    result = knowledge.run(("10",), folder=tmp_path).as_json()
    (row,) = result["rows"]
    for name in (
        "prompted",
        "window",
        "retrieved",
        "bare",
        "folded",
        "random",
        "rival",
        "shuffled_new",
        "shuffled_old",
    ):
        assert 0 <= row[f"accuracy_{name}"] <= 1
    assert row["choices_bare"] in (0, 1)
    assert row["perplexity_change"] > -1
    assert row["verdicts"][0] in ("GOOD", "PARTIAL", "FAILED")
    assert row["seconds_total"] > row["seconds_solve"] > 0
    assert json.loads((tmp_path / "10-10.json").read_text())["accuracy_folded"] == row["accuracy_folded"]
    knowledge.run(("10",), folder=tmp_path)
    assert len(calls) == 1


@pytest.mark.parametrize("size", ["7", "many", "5"])
def test_a_size_that_no_register_has_is_refused(size: str) -> None:
    with pytest.raises(InputError, match="must be a number of facts"):
        knowledge.run((size,))


def test_articles_are_scored_by_f1_and_asked_for_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (("Who built it?", ("Ada Holt", "Holt"), 1), ("When?", ("1903",), 0))
    document = Document("The Bridge", ("It dates from 1903.", "Ada Holt built it."), asked)
    monkeypatch.setattr(_cases, "squad_documents", lambda titles: [document])
    (case,) = squad_cases(1)
    first = case.questions[0]
    assert (case.name, first.text, first.passage) == ("squad-the-bridge", "Who built it?" + BRIEF, "Ada Holt built it.")
    assert case.text == "It dates from 1903.\n\nAda Holt built it."
    assert case.score("Holt", first) == 1
    assert case.score("the Holt family", first) == pytest.approx(2 / 3)
    assert case.score("1903", first) == 0


def test_unrelated_passages_are_of_articles_that_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document(f"{i}", (f"{i} a", f"{i} b"), (("What?", ("b",), 1),)) for i in range(21)]
    monkeypatch.setattr(_cases, "squad_documents", lambda titles: documents[:titles])
    folded = {case.text for case in squad_cases()}
    assert len(folded) == 6
    some = _cases.unrelated_passages(10)
    assert len(set(some)) == 10
    assert not any(text in whole for text in some for whole in folded)


def test_old_values_are_those_before_the_move() -> None:
    case = register_case(10, 3, 8)
    assert case.moved is not None
    new = {q.text: q.value for q in case.moved.questions}
    old = {q.text: q.value for q in _cases.old_values(case.moved.questions)}
    true = {q.text: q.value for q in case.questions}
    assert new.keys() == old.keys() == true.keys()
    assert all(old[text] == true[text] != new[text] for text in true)


def test_the_likeliest_choice_for_each_character_counts() -> None:
    """Against a plain pass over each choice; an index of another choice gives another share."""
    model = talker()
    items = [("Two?", ("2", "three"), 0), ("Cat?", ("a dog", "a cat", "x"), 1), ("Sky?", ("blue", "green!"), 0)]

    def score(question: str, choice: str) -> float:
        tok = model.tokenizer
        before, after = (
            tok(t, add_special_tokens=False)["input_ids"] for t in (f"Question: {question}\nAnswer:", f" {choice}")
        )
        logp = model.model(input_ids=torch.tensor([before + after])).logits[0].log_softmax(-1)
        return sum(float(logp[len(before) - 1 + i, t]) for i, t in enumerate(after)) / (len(choice) + 1)

    best = [max(range(len(cs)), key=lambda i, q=q, cs=cs: score(q, cs[i])) for q, cs, _ in items]
    assert choice_accuracy(model, [(q, cs, b) for (q, cs, _), b in zip(items, best, strict=True)]) == 1
    assert choice_accuracy(model, [(q, cs, (b + 1) % len(cs)) for (q, cs, _), b in zip(items, best, strict=True)]) == 0
