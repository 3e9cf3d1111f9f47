"""How answers are judged: whole values, no others, abstaining, and SQuAD's F1 against results by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweights.folding import Question, abstains, answers_right, contains, f1, is_right
from inweights.folding._answers import words

CONTAINED = [
    ("It costs £4.50.", "4.50"),
    ("It costs £4.50.", "£4.50"),
    ("4.50 pounds", "£4.50"),
    ("4.5 pounds", "4.50"),
    ("That is $1,200.00!", "1200"),
    ("1\u202f234", "1,234"),
    ("1,234,567 people", "1234567"),
    ("It weighs 45kg", "45"),
    ("It weighs 45kg", "45 kg"),
    ("It weighs 45 kg", "45kg"),
    ("on the 14th of May", "14"),
    ("Sea-Green, I think", "sea green"),
    ("sea green", "sea-green"),
    ("It's Tilda’s boat", "Tilda"),
    ("'Tilda'", "tilda"),
    ("O’Brien", "O'Brien"),
    ("OBrien", "O'Brien"),
    ("the Jones' house", "Jones"),
    ("the king's arms", "King’s Arms"),
    ("**Velmora**", "velmora"),
    ("_Velmora_", "Velmora"),
    ("STRASSE", "Straße"),
    ("cafe\u0301", "café"),
    ("ＡＢＣ １２", "abc 12"),
    ("It is −5 degrees", "-5"),
    ("from 4-5", "5"),
    ("It is .5", "0.50"),
    ("at 9:30 am", "9:30"),
    ("shelf B14", "B14"),
    ("years 3,4,5", "4"),
    ("1990–1995", "1995"),
    ("東京です", "東京"),
    ("In Lyon.", "Lyon"),
    ("version 1.2.3", "1.2.3"),
    ("The year was 1742.", "1742"),
    ("25%", "25"),
]
MISSING = [
    ("140", "14"),
    ("14.5", "4.5"),
    ("14.5", "14"),
    ("4.55", "4.5"),
    ("1,400", "400"),
    ("1,400", "1"),
    ("shelf B14", "14"),
    ("9:30", "9"),
    ("9:30", "30"),
    ("evergreen", "green"),
    ("greenish", "green"),
    ("green sea", "sea green"),
    ("It is -5 degrees", "5"),
    ("version 1.2.3", "1.2"),
    ("anything", ""),
    ("anything", "!?"),
    ("", "green"),
]


@pytest.mark.parametrize(("text", "value"), CONTAINED)
def test_values_are_found_however_they_are_written(text: str, value: str) -> None:
    assert contains(text, value)


@pytest.mark.parametrize(("text", "value"), MISSING)
def test_parts_of_words_and_numbers_are_not_values(text: str, value: str) -> None:
    assert not contains(text, value)


def test_words_as_they_are_compared() -> None:
    assert words("It's £1,200.00/day") == ["it", "1200", "day"]
    assert words("B14, 45kg; rock'n'roll") == ["b14", "45", "kg", "rocknroll"]


@given(st.text())
def test_any_text_with_words_contains_itself(text: str) -> None:
    assert contains(text, text) == bool(words(text))


@given(st.integers(0, 10**9))
def test_separators_of_thousands_do_not_matter(number: int) -> None:
    assert contains(f"about {number:,} of them", str(number))
    assert not contains(f"{number:,}", str(number + 1))


def test_an_answer_is_right_with_the_value_and_no_other() -> None:
    question = Question("What colour?", "sea green", ("green", "blue", "dark sea green"))
    assert answers_right("It is sea green.", question)
    assert answers_right("Sea-green", question)
    assert not answers_right("It is green.", question)
    assert not answers_right("sea green or blue", question)
    assert not answers_right("dark sea green", question)
    assert not answers_right("", question)
    assert answers_right("£4.50", Question("How much?", "4.50", ("14.50", "4")))
    assert not answers_right("£4.50, or £14.50", Question("How much?", "4.50", ("14.50", "4")))


def test_where_the_document_does_not_say_it_abstaining_is_right() -> None:
    question = Question("What colour?", "", ("green", "blue"))
    assert answers_right("I don't know.", question)
    assert not answers_right("I don't know, maybe green.", question)
    assert not answers_right("Red.", question)
    assert not answers_right("", question)


ABSTAINING = [
    "I don't know.",
    "I do not know who that is.",
    "I’m not sure about that.",
    "I am unable to find this.",
    "The text does not mention her pet.",
    "The document doesn't say.",
    "This is not mentioned in the register.",
    "That isn't specified.",
    "There is no information about the Velmora.",
    "No information is given.",
    "There is no mention of a captain.",
    "Her age is unknown.",
    "Unknown",
    "Not mentioned.",
    "It cannot be determined from the text.",
    "I'm sorry, but I don't have that information.",
    "I'm sorry, but I don't have any details on that.",
    "I have no idea.",
    "It is not possible to say.",
    "There is not enough information.",
    "The register contains no such entry: there is no such person.",
    "The Velmora is not in the register.",
    "The owner is not explicitly stated.",
    "The provided context does not provide the owner.",
    "N/A",
    "I couldn't find it.",
]
ANSWERING = [
    "",
    "Green.",
    "The shop does not open on Mondays.",
    "She does not know how to swim; her boat is the Velmora.",
    "It is not available on Mondays.",
    "He is not known for his singing, but for his pears.",
    "The shop does not provide bicycles.",
    "No, it is green.",
    "It was built in 1871 by an owner who had no children.",
    "There is no charge.",
    "You cannot enter before nine.",
    "I know that: it is green.",
    "The ship is called the Unknown Sailor.",
    "We are not open then.",
    "Not green but blue.",
    "It was not given away; Tilda owns it.",
]


@pytest.mark.parametrize("answer", ABSTAINING)
def test_abstaining(answer: str) -> None:
    assert abstains(answer)


@pytest.mark.parametrize("answer", ANSWERING)
def test_not_abstaining(answer: str) -> None:
    assert not abstains(answer)


@pytest.mark.parametrize(
    ("answer", "references", "expected"),
    [
        ("The Denver Broncos", ["Denver Broncos"], 1.0),
        ("denver broncos!", ["The Denver Broncos."], 1.0),
        ("Broncos", ["Denver Broncos"], 2 / 3),  # precision 1, recall 1/2
        ("the team of Denver", ["Denver Broncos"], 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        ("a b a b", ["b a"], 2 / 3),  # the first a is an article in both: b b and b
        ("cat cat dog", ["cat dog dog"], 2 / 3),  # 2 of 3 in common, both ways
        ("23", ["23 years", "23"], 1.0),
        ("Panthers", ["Denver Broncos"], 0.0),
        ("", ["x"], 0.0),
        ("The.", ["a"], 1.0),
        ("x", [], 0.0),
        ("co-operation", ["cooperation"], 1.0),
    ],
)
def test_f1_by_hand(answer: str, references: list[str], expected: float) -> None:
    assert f1(answer, references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "wanted", "loose", "strict"),
    [
        ("The capital of Italy is Rome.", "Rome", True, False),
        ("Rome, of course.", "Rome", True, True),
        ("rome", "Rome", True, False),
        ("Romeo", "Rome", False, False),
        ("It costs 1,200.00 dollars.", "1200", True, False),
        ("140", "14", False, False),
        ("Well: 😀!", "😀", True, False),
        ("Paris", "Rome", False, False),
    ],
)
def test_an_answer_contains_the_given_one_or_strictly_begins_with_it(
    text: str, wanted: str, loose: bool, strict: bool
) -> None:
    assert is_right(text, wanted, strict=False) is loose
    assert is_right(text, wanted) is strict
