"""Made-up registers: every fact is stated, every question has one right answer, and a seed always gives the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweights._errors import InputError
from inweights.bench._register_text import LAYOUTS
from inweights.bench._register_words import deranged, domains, known, made_up_names
from inweights.bench._registers import Register, forms_sha256, register, sampled
from inweights.folding import Question, answers_right, contains

# Noted before the first run of a benchmark. Whoever changes a form must measure again.
FORMS = "34c69e9717b06a59b9bb796a6d6f4d1fc51ad001e1c89d1aa152e19a7a391c0d"
KINDS = {"paraphrase", "reversed", "two-hop", "comparison", "absent"}


def of(found: Register, kind: str) -> list[Question]:
    return [q for q in found.questions if q.kind == kind]


def test_the_forms_are_those_that_were_noted() -> None:
    assert forms_sha256() == FORMS


def test_there_are_enough_domains_attributes_values_and_forms() -> None:
    assert len(domains()) >= 4
    for domain in domains():
        assert len(domain.attributes) > 5
        assert sum(len(a.values) >= 200 for a in domain.attributes) >= 2, "some values are unique in 1,000 facts"
        assert sum(bool(a.more) for a in domain.attributes) >= 2, "some numbers can be compared, whichever are chosen"
        for a in domain.attributes:
            assert len(set(a.values)) == len(a.values) >= 12
            assert len({*a.tests}) >= 3
            assert len(a.clauses) >= 2
            assert len(a.asks) >= 2
            assert a.back
            assert a.having


def test_no_form_of_a_test_is_one_of_the_documents() -> None:
    attributes = [a for d in domains() for a in d.attributes] + [a for a, _ in known()]
    shown = {form for a in attributes for form in (*a.asks, *a.clauses)}
    asked = {form for a in attributes for form in (*a.tests, *a.back, *a.more)} | {
        f for d in domains() for f in d.absent
    }
    assert not shown & asked


def test_values_cannot_be_taken_for_one_another() -> None:
    """Neither within an attribute nor between two of a domain, so that an answer with more than is asked is right."""
    for domain in domains():
        values = [value for a in domain.attributes for value in a.values]
        assert len(set(values)) == len(values)
        few = [value for a in domain.attributes for value in a.values[:24]]
        for i, one in enumerate(few):
            assert not any(contains(one, other) for other in few[:i] + few[i + 1 :])


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 2))
def test_no_name_is_part_of_another(seed: int, count: int, words: int) -> None:
    names = made_up_names(count, words, Random(seed))
    parts = [word.lower() for name in names for word in name.split()]
    assert len(names) == count
    assert len(parts) == count * words
    assert not any(one in other for one in parts for other in parts if one is not other)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=40), st.integers())
def test_deranged_values_stand_nowhere_as_before(values: list[str], seed: int) -> None:
    moved = deranged(values, Random(seed))
    assert Counter(moved) == Counter(values)
    if 2 * max(Counter(values).values()) <= len(values):
        assert all(a != b for a, b in zip(moved, values, strict=True))


CASES = [(seed, layout, moved) for seed in range(8) for layout in LAYOUTS for moved in (False, True)]


@pytest.mark.parametrize(("seed", "layout", "moved"), CASES)
def test_every_question_has_its_answer_in_its_passage(seed: int, layout: str, moved: bool) -> None:
    result = register(50, seed, layout=layout, shuffled=moved)
    assert {q.kind for q in result.questions} == KINDS
    assert len(of(result, "paraphrase")) == 150
    assert len({(q.entity, q.attribute) for q in of(result, "paraphrase")}) == 50
    for q in result.questions:
        assert not contains(q.text, "None")
        assert "{" not in q.text
        assert q.text[0].isupper()
        assert q.text not in result.text
        assert all(line in result.text for line in q.passage.splitlines())
        assert q.value not in q.others
        if q.kind == "absent":
            assert q.value == ""
        else:
            assert contains(q.passage, q.value)
            assert answers_right(f"It is {q.value}.", q)
            assert not any(answers_right(f"It is {other}.", q) for other in q.others)
            assert q.kind == "comparison" or not contains(q.text, q.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_document_says_every_fact_once(layout: str) -> None:
    result = register(100, 3, layout=layout)
    for q in of(result, "paraphrase"):
        assert contains(q.passage, q.entity)
        line = next(line for line in q.passage.splitlines() if contains(line, q.entity))
        assert result.text.count(line) == 1
    if layout in ("prose", "faq"):  # in a table one row says five
        assert len({q.passage for q in of(result, "paraphrase")}) == len(re.findall(r"\.(?=\s|$)", result.text)) - (
            layout == "prose"  # the title ends with a full stop, too
        )
    for q in of(result, "absent"):
        assert contains(result.text, q.entity) == bool(q.passage)
        assert not any(contains(q.passage, other) for other in q.others)


def test_layouts_look_like_themselves() -> None:
    prose, table, faq, mixed = (register(60, 5, layout=layout).text for layout in LAYOUTS)
    assert "|" not in prose
    assert "Q:" not in prose
    assert len(re.findall(r"^\| \w", table, re.MULTILINE)) == 1 + 12
    assert faq.count("Q: ") == faq.count("\nA: ") == 60
    assert re.findall(r"^## (.+)", mixed, re.MULTILINE) == ["Notes", "Table", "Questions and answers"]
    assert mixed.count("Q: ") == 20


@pytest.mark.parametrize("seed", range(4))
def test_a_register_of_250_facts_has_about_1300_words(seed: int) -> None:
    assert 1100 < len(register(250, seed).text.split()) < 1700


def test_a_seed_has_one_domain_and_its_neighbours_have_others() -> None:
    first = [register(10, seed).text.splitlines()[0] for seed in range(8)]
    assert len(set(first[:4])) == len(domains()) == 4
    assert first[:4] == first[4:]
    for seed in range(4):
        asked = [{q.attribute for q in of(register(facts, seed), "paraphrase")} for facts in (10, 50, 250)]
        assert asked[0] == asked[1] == asked[2]
    assert {q.attribute for q in of(register(50, 0), "paraphrase")} != {
        q.attribute for q in of(register(50, 4), "paraphrase")
    }


def test_reversed_and_two_hop_questions_have_one_answer() -> None:
    result = register(250, 1)
    facts = {(q.entity, q.attribute): q.value for q in of(result, "paraphrase")}
    by_value = Counter((attribute, value) for (_, attribute), value in facts.items())
    for q in of(result, "reversed"):
        assert q.value == q.entity
        assert by_value[q.attribute, facts[q.entity, q.attribute]] == 1
        assert contains(q.text, facts[q.entity, q.attribute])
    for q in of(result, "two-hop"):
        assert q.value == facts[q.entity, q.attribute]
        named = [a for (e, a), v in facts.items() if e == q.entity and contains(q.text, v) and by_value[a, v] == 1]
        assert named
        assert not contains(q.text, q.entity)
    for q in of(result, "comparison"):
        assert float(facts[q.value, q.attribute]) > float(facts[q.others[0], q.attribute])
        assert contains(q.text, q.value)
        assert contains(q.text, q.others[0])
    assert {q.text.index(q.value) < q.text.index(q.others[0]) for q in of(result, "comparison")} == {True, False}


@pytest.mark.parametrize("seed", range(6))
def test_moved_values_change_every_answer_and_nothing_else(seed: int) -> None:
    plain, moved = register(50, seed), register(50, seed, shuffled=True)
    for a, b in zip(of(plain, "paraphrase"), of(moved, "paraphrase"), strict=True):
        assert (a.text, a.entity, a.attribute) == (b.text, b.entity, b.attribute)
        assert a.value != b.value
        assert b.others[0] == a.value
    values = [Counter((q.attribute, q.value) for q in of(r, "paraphrase")) for r in (plain, moved)]
    assert values[0] == values[1]
    before = {q.text: q.value for q in of(plain, "reversed")}
    same = [q for q in of(moved, "reversed") if q.text in before]
    assert same
    assert all(q.others[0] == before[q.text] != q.value for q in same)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_false_registers_contradict_what_is_known(seed: int, layout: str) -> None:
    true = {(entity, a.name): value for a, facts in known() for entity, value in facts.items()}
    assert len(true) >= 40
    result = register(len(true), seed, layout=layout, false=True)
    assert len(result.questions) == 3 * len(true)
    for q in result.questions:
        assert q.others[0] == true[q.entity, q.attribute] != q.value
        assert contains(q.passage, q.value)
        assert all(line in result.text for line in q.passage.splitlines())
        assert not contains(q.text, q.value)
        assert not contains(q.text, q.others[0])
        assert q.text not in result.text


def test_the_same_in_every_process() -> None:
    code = (
        "from inweights.bench._registers import *\n"
        "r = register(50, 4, layout='mixed'); print(repr((r, sampled(r.questions, 9, 2))))"
    )
    other = os.environ | {"PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=other)
    here = register(50, 4, layout="mixed")
    assert done.stdout.strip() == repr((here, sampled(here.questions, 9, 2)))


def test_sampled_questions_are_spread_evenly() -> None:
    asked = of(register(250, 2), "paraphrase")
    some = sampled(asked, 100, 0)
    assert len(set(some)) == 100
    assert set(Counter(q.attribute for q in some).values()) == {20}
    assert set(Counter(q.entity for q in some).values()) == {2}
    assert set(Counter((q.entity, q.attribute) for q in some).values()) == {1}
    assert list(some) == sorted(some, key=asked.index)
    assert some == sampled(asked, 100, 0) != sampled(asked, 100, 1)
    assert sampled(asked, 10**6, 0) == tuple(asked)
    assert sampled(asked, 0, 0) == sampled([], 5, 0) == ()


@pytest.mark.parametrize(
    ("facts", "options", "words"),
    [
        (7, {}, "`facts` is 7: it must be a multiple of 5, and at least 5"),
        (5, {"shuffled": True}, "`facts` is 5: it must be a multiple of 5, and at least 10"),
        (51, {"false": True}, "`facts` is 51: a false register has 1 to 50"),
        (5, {"layout": "poem"}, "`layout` is 'poem': it must be one of prose, table"),
        (10, {"shuffled": True, "false": True}, "not both"),
    ],
)
def test_bad_input_gets_a_sentence(facts: int, options: dict[str, bool], words: str) -> None:
    with pytest.raises(InputError, match=words):
        register(facts, 0, **options)  # type: ignore[arg-type]
