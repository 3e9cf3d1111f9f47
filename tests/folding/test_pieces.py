"""A context is split into what states something, and each piece knows its window, its phrases and its questions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweights.folding import pieces
from inweights.folding._echo import clauses, echoes
from inweights.folding._pieces import WINDOW, marked

TEXT = """# Handbook
Mara Tolvin is 34 years old and works as a baker. She earns £1,200.50 a month. Dr. A. Smith opens at 9:30 am.

## Prices
- A boat costs £45 for 2 hours.
- Always wear a life jacket.

| Name | Age | Town |
|---|---|---|
| Oro Finn | 45 | Velmora |

When is the shop open?
From nine to six.
"""


def test_sentences_items_rows_and_questions_are_pieces() -> None:
    texts = [p.text for p in pieces(TEXT)]
    assert texts == [
        "Mara Tolvin is 34 years old and works as a baker.",
        "She earns £1,200.50 a month.",
        "Dr. A. Smith opens at 9:30 am.",
        "- A boat costs £45 for 2 hours.",
        "- Always wear a life jacket.",
        "| Name | Age | Town |\n| Oro Finn | 45 | Velmora |",
        "When is the shop open?\nFrom nine to six.",
    ]


def test_a_piece_reads_its_headings_and_what_it_refers_to() -> None:
    first, second, *_ = result = pieces(TEXT)
    assert first.reads == "# Handbook\nMara Tolvin is 34 years old and works as a baker."
    assert "Mara Tolvin" in second.reads  # "She" alone says nothing
    assert result[3].alone == "# Handbook\n## Prices\n- A boat costs £45 for 2 hours."
    assert result[4].directs
    assert not result[3].directs


def test_names_and_numbers_are_marked() -> None:
    assert marked("Mara Tolvin earns £1,200.50 and starts at 9:30 am.") == ("Mara Tolvin", "£1,200.50", "9:30 am")
    assert marked("The shop is closed.") == ()
    (row,) = [p for p in pieces(TEXT) if "Oro" in p.text]
    assert row.marked == ("Oro Finn", "Velmora", "45")
    assert row.cells == [("What is the Age of Oro Finn?", "45"), ("What is the Town of Oro Finn?", "Velmora")]


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Z"]), min_size=1), max_size=12))
def test_any_text_has_pieces_that_stand_in_it(lines: list[str]) -> None:
    """No word is made up, and no window is longer than it may be."""
    context = "\n".join(lines)
    there = set(context.split())
    for piece in pieces(context):
        assert set(piece.text.split()) <= there
        assert piece.text.split("\n")[-1] in piece.window
        assert len(piece.window.split()) <= max(WINDOW, len(piece.alone.split())) + len(context.split())


SENTENCE = "The Nar bridge was designed by Ada Holt, and has seven arches."


def test_a_sentence_asks_for_its_own_facts() -> None:
    (piece,) = pieces(SENTENCE)
    assert clauses(piece) == ("The Nar bridge", ["was designed by Ada Holt", "has seven arches"])
    asked = [pair for phrase in ("Ada Holt", "seven", "Nar") for pair in echoes(piece, phrase, random.Random(0))]
    assert asked
    for query, answer in asked:
        assert query.endswith(("?", "..."))
        assert any(word in answer for word in ("Ada Holt", "seven", "Nar"))
        assert answer.rstrip(".") not in query or answer == "Nar"


@pytest.mark.parametrize("text", ["no names here at all.", "| A | B |\n| C | 2 |", "Prices"])
def test_what_is_no_sentence_about_a_name_asks_nothing(text: str) -> None:
    assert not [pair for p in pieces(text) for phrase in p.phrases for pair in echoes(p, phrase, random.Random(0))]


def test_phrases_end_at_names() -> None:
    """What stands beside a name is asked for by itself; a number keeps its unit."""
    (piece,) = pieces("The Orla carries pine timber to Fenn under old flags, 40 metres high.")
    assert "carries pine timber" in piece.phrases
    assert "old flags" in piece.phrases
    assert "40 metres high" in piece.phrases
    assert not any("Orla" in phrase and phrase != "Orla" for phrase in piece.phrases)


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("Dogs ride in the trailer, which carries up to 25 kg.", ("Dogs", ["ride in the trailer"])),
        ("Repairs are done by Mo Brandt, who works in the yard.", ("Repairs", ["are done by Mo Brandt"])),
        (
            "The Nar bridge, which was designed by Ada Holt, has seven arches.",
            ("The Nar bridge", ["was designed by Ada Holt", "has seven arches"]),
        ),
    ],
)
def test_a_relative_clause_belongs_to_the_word_before_it(sentence: str, wanted: tuple[str, list[str]]) -> None:
    """Of the subject it states something only right behind it: anything else would be taught as a fact that is none."""
    (piece,) = pieces(sentence)
    assert clauses(piece) == wanted
