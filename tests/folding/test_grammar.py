"""Clauses become the questions that people ask; what is not understood gives none."""

from __future__ import annotations

import random

import pytest

from inweights.folding import pieces
from inweights.folding._echo import clauses, echoes
from inweights.folding._grammar import asking, is_verbal, predicate, split_subject


@pytest.mark.parametrize(
    ("subject", "clause", "phrase", "wanted"),
    [
        ("The Fenn tower", "opens at 9:40", "9:40", "When does the Fenn tower open?"),
        ("The Fenn tower", "was built in 1903", "1903", "When was the Fenn tower built?"),
        ("The Fenn tower", "has a height of 45 metres", "45", "What height does the Fenn tower have?"),
        ("The Fenn tower", "is 45 metres high", "45", "How high is the Fenn tower?"),
        ("A day pass", "costs £17", "£17", "How much does a day pass cost?"),
        ("The hall", "seats 300 people", "300", "How many people does the hall seat?"),
        ("The hall", "is in room 14", "14", "Which room is the hall in?"),
        ("Orla", "studied under professor Ada Holt", "Ada Holt", "Who is the professor of Orla?"),
        ("Orla", "was taught by Ada Holt", "Ada Holt", "Who was Orla taught by?"),
        ("Orla", "carries a lamp", "lamp", "What does Orla carry?"),
        ("Orla", "lives in Fenn", "Fenn", "Where does Orla live?"),
        ("The mechanic of Fenn", "is Ada Holt", "Ada Holt", "Who is the mechanic of Fenn?"),
        ("Day passes", "cost £17", "£17", "How much do Day passes cost?"),
        ("Guests", "may bring dogs", "dogs", "What may Guests bring?"),
    ],
)
def test_a_clause_becomes_a_question(subject: str, clause: str, phrase: str, wanted: str) -> None:
    assert wanted in asking(subject, clause, phrase)


def test_what_is_not_understood_gives_no_question() -> None:
    assert asking("Courses", "of the school", "school") == []
    assert asking("The hall", "seats 300 people", "400") == []
    assert predicate("") is None
    assert split_subject("Courses of the school") == ("", "")


@pytest.mark.parametrize(
    ("past", "base"),
    [("sailed", "sail"), ("closed", "close"), ("moved", "move"), ("carried", "carry"), ("stopped", "stop"),
     ("came", "come"), ("named", "name"), ("stored", "store"), ("charged", "charge"), ("opened", "open"),
     ("belonged", "belong"), ("priced", "price")],
)  # fmt: skip
def test_base_forms(past: str, base: str) -> None:
    parts = predicate(f"{past} in May")
    assert parts is not None
    assert (parts.auxiliary, parts.verb) == ("did", base)


def test_verbs_and_participles_are_no_answers() -> None:
    assert is_verbal("is loaded with paper", "loaded")
    assert is_verbal("first sailed in 1923", "sailed")
    assert not is_verbal("is loaded with paper", "paper")


def test_subjects_are_whole() -> None:
    """ "The mechanic of Fenn's is Ada Holt" states nothing of Fenn's itself."""
    text = "The mechanic of Fenn's is Ada Holt. A city bike costs £17 a day. Note that the Orla lies at berth 9."
    found = [clauses(piece) for piece in pieces(text)]
    assert found == [
        ("The mechanic of Fenn's", ["is Ada Holt"]),
        ("A city bike", ["costs £17 a day"]),
        ("The Orla", ["lies at berth 9"]),
    ]
    (piece,) = pieces("The mechanic of Fenn's is Ada Holt.")
    answers = {answer for _, answer in echoes(piece, "Ada Holt", random.Random(0))}
    assert answers == {"The mechanic of Fenn's is Ada Holt."}
