"""Clauses become the questions that people ask; what is not understood gives none."""

from __future__ import annotations

import random

import pytest

from inweights.folding import pieces
from inweights.folding._echo import ASKED, clauses, echoes, stating, unframed
from inweights.folding._grammar import active, asking, is_verbal, predicate, split_subject


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
        ("The Fenn tower", "is guarded by Ada Holt", "Ada Holt", "Who guards the Fenn tower?"),
        ("The hall", "was written about by Ada Holt", "Ada Holt", "Who was the hall written about by?"),
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
    result = [clauses(piece) for piece in pieces(text)]
    assert result == [
        ("The mechanic of Fenn's", ["is Ada Holt"]),
        ("A city bike", ["costs £17 a day"]),
        ("The Orla", ["lies at berth 9"]),
    ]
    (piece,) = pieces("The mechanic of Fenn's is Ada Holt.")
    answers = {answer for _, answer in echoes(piece, "Ada Holt", random.Random(0))}
    assert answers == {"The mechanic of Fenn's is Ada Holt."}


@pytest.mark.parametrize(
    ("passive", "wanted"),
    [("is designed", "designs"), ("was designed", "designed"), ("is written", "writes"), ("was written", "wrote"),
     ("is taught", "teaches"), ("was taught", "taught"), ("is carried", "carries"), ("is played", "plays"),
     ("is done", "does"), ("was worn", "wore"), ("is near", "")],
)  # fmt: skip
def test_passives_become_active(passive: str, wanted: str) -> None:
    assert active(*passive.split()) == wanted


def test_a_blank_is_in_the_clause_that_states_the_phrase() -> None:
    (piece,) = pieces("The Orla lies at berth 9, was built by Ada Holt and carries a lamp.")
    assert stating(piece, "Ada Holt") == "The Orla was built by Ada Holt."
    assert stating(piece, "lamp") == "The Orla carries a lamp."
    (row,) = pieces("| Ship | Berth |\n| Orla | 9 |")
    assert stating(row, "9") == row.body


def test_a_question_is_also_asked_with_words_before_it() -> None:
    (piece,) = pieces("The hall seats 300 people.")
    asked = [query for query, _ in echoes(piece, "300", random.Random(0))]
    assert "How many people does the hall seat?" in asked
    framed = [q for q in asked if unframed(q) != q]
    assert [unframed(q) for q in framed] == ["How many people does the hall seat?"]
    assert all(unframed(frame.format(query="Why?")) == "Why?" for frame in ASKED)
    assert unframed("I forgot: Why?") == "I forgot: Why?"
