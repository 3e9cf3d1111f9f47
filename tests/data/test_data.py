"""The data sets, as fetched, and prompts made of them."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inweights._errors import InputError
from inweights.data import DATA, FewShot, _sources, few_shot, pairs, source
from inweights.data._few_shot import _evenly

SMALL = ["past-tense", "plurals", "capitalise", "capitals"]
SENTENCES = [(f"film {i} was so-so .", "positive" if i % 3 else "negative") for i in range(60)]


@pytest.fixture
def films(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set with labels that is not fetched, two thirds of it positive."""
    made = dataclasses.replace(
        DATA["sst2"], name="films", recipes=(), needs="", parse=lambda: random.Random(1).sample(SENTENCES, 60)
    )
    monkeypatch.setitem(_sources.DATA, "films", made)


ROWS = {"past-tense": 300, "plurals": 300, "capitalise": 300, "capitals": 183}
SAMPLES = {
    "past-tense": {("walk", "walked"), ("go", "went"), ("take", "took"), ("write", "wrote"), ("stop", "stopped")},
    "plurals": {("city", "cities"), ("child", "children"), ("woman", "women"), ("virus", "viruses")},
    "capitalise": {("city", "City"), ("teacher", "Teacher")},
    "capitals": {("France", "Paris"), ("Japan", "Tokyo"), ("Kenya", "Nairobi"), ("Peru", "Lima")},
}


@pytest.mark.parametrize("name", SMALL)
def test_the_real_data(name: str) -> None:
    """This fetches what is not in the user's cache yet, 4 MB in all."""
    result = pairs(name)
    assert len(result) == len(dict(result)) == ROWS[name]
    assert set(result) >= SAMPLES[name]
    assert result == pairs(name)
    for question, answer in result:
        assert question != answer
        assert question == question.strip()
        assert answer == answer.strip()
        assert "\n" not in question + answer
    assert DATA[name].cached


@pytest.mark.parametrize("name", SMALL)
def test_the_default_numbers_fit(name: str) -> None:
    task = few_shot(name)
    assert (task.context.count("Input: "), len(task.test)) == (8, 100)
    assert len(task.calibration) == min(128, len(pairs(name)) - 108) >= 64
    assert re.fullmatch(r"(Input: [^\n]+\nOutput: [^\n]+\n\n){8}", task.context)
    known = dict(pairs(name))
    for query, answer in task.test:
        result = re.fullmatch(r"Input: ([^\n]+)\nOutput:", query)
        assert result
        assert answer == f" {known[result[1]]}"


def asked(task: FewShot) -> tuple[list[str], list[str], list[str]]:
    """The questions of the three parts."""
    texts = task.context, "\n".join(task.calibration), "\n".join(query for query, _ in task.test)
    shown, calibration, test = (re.findall(r"^Review: (.+)$", text, re.MULTILINE) for text in texts)
    return shown, calibration, test


NUMBERS = st.tuples(st.integers(1, 20), st.integers(0, 20), st.integers(0, 20))


@pytest.mark.usefixtures("films")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it is the same for every seed
@given(seed=st.integers(), numbers=NUMBERS)
def test_no_question_stands_in_two_parts(seed: int, numbers: tuple[int, int, int]) -> None:
    shots, calibration, test = numbers
    task = few_shot("films", shots=shots, calibration=calibration, test=test, seed=seed)
    parts = asked(task)
    assert tuple(map(len, parts)) == numbers
    assert len({question for part in parts for question in part}) == sum(numbers)
    known = dict(SENTENCES)
    assert all(answer == f" {known[question]}" for question, (_, answer) in zip(parts[2], task.test, strict=True))
    shown = Counter(known[question] for question in parts[0])
    assert abs(shown["positive"] - shown["negative"]) <= shots % 2
    assert task == few_shot("films", shots=shots, calibration=calibration, test=test, seed=seed)


@pytest.mark.usefixtures("films")
def test_a_prompt_of_labels_reads_as_reviews_do() -> None:
    task = few_shot("films", shots=2, calibration=1, test=1)
    assert re.fullmatch(r"(Review: film \d+ was so-so \.\nSentiment: (posi|nega)tive\n\n){2}", task.context)
    assert re.fullmatch(r"Review: film \d+ was so-so \.\nSentiment:", task.calibration[0])
    assert task.test[0][1] in (" positive", " negative")
    assert len({few_shot("films", seed=seed, test=0, calibration=0).context for seed in range(5)}) == 5


def test_labels_that_run_out_are_made_up_for_by_others() -> None:
    drawn = [("a", "no"), ("b", "yes"), ("c", "yes"), ("d", "yes")]
    assert _evenly(drawn, 2) == drawn[:2]
    assert _evenly(drawn, 4) == drawn


@pytest.mark.usefixtures("films")
@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"shots": 8, "calibration": 40, "test": 13}, "has 60 pairs, but .* is 8 \\+ 40 \\+ 13 = 61: ask for fewer"),
        ({"shots": 0}, "`shots` is 0: it must be at least 1"),
        ({"calibration": -1, "test": -2}, "`calibration` is -1.*\n`test` is -2: it must be at least 0"),
    ],
)
def test_numbers_that_do_not_fit(numbers: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        few_shot("films", **numbers)


def test_an_unknown_name() -> None:
    for use in (source, pairs, few_shot):
        with pytest.raises(InputError, match="There is no data set 'plural'; did you mean plurals"):
            use("plural")


def test_reviews_need_pyarrow_and_say_so_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sources, "find_spec", lambda name: None)
    monkeypatch.setattr(_sources, "fetch", lambda recipe: pytest.fail("this is fetched"))
    with pytest.raises(InputError, match=r"'sst2' is read with pyarrow: it needs pip install 'inweights\[data\]'"):
        pairs("sst2")


def test_every_source_states_its_origin() -> None:
    for name, data in DATA.items():
        assert data.name == name
        assert data.licence
        assert all(recipe.requirement in data.package for recipe in data.recipes)
