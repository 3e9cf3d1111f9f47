"""Parsers, on small files made by hand."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from inweights.data import _parse

TABLE = """\
Walk,noun,Walks
be,verb,was/were,been,being,is/are
box,noun,boxes/box
city,noun,cities
find,verb,found,found,finding,finds
found,verb,founded,,founding,founds
ice-cream,noun,ice-creams
learn,verb,learned/learnt,learnt,learning,learns
lie,verb,lay/lied,lain,lying,lies
lay,verb,laid,,laying,lays
put,verb,put,put,putting,puts
quick,adj,quicker,quickest
sheep,noun,sheep
slut,noun,sluts
teacher,noun,teachers
teacherx,noun,teacherxes
walk,noun,walks
walk,verb,walked,,walking,walks
year,noun,years
"""
COUNTS = "year 900\nyears 100\ncity 500\ncities 400\nteacher 90\nteachers 90\nfind 1\nfound 9\nwalk 5\nwalked 4\n"


@pytest.fixture
def words(tmp_path: Path) -> tuple[Path, Path]:
    table, counts = tmp_path / "table.csv.gz", tmp_path / "counts.txt"
    table.write_bytes(gzip.compress(TABLE.encode()))
    counts.write_text(COUNTS)
    return table, counts


def test_verbs_have_one_past_tense_and_are_none(words: tuple[Path, Path]) -> None:
    """Two forms, a form equal to the verb, and verbs that are the past of another are left out."""
    assert _parse.past_tense(*words) == [("walk", "walked"), ("find", "found")]


def test_nouns_are_nothing_else_and_the_rarer_form_counts(words: tuple[Path, Path]) -> None:
    expected = [("city", "cities"), ("year", "years"), ("teacher", "teachers"), ("teacherx", "teacherxes")]
    assert _parse.plurals(*words) == expected
    assert _parse.capitalise(*words) == [(noun, noun.capitalize()) for noun, _ in expected]


def test_only_the_commonest_are_kept(words: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parse, "COMMONEST", 1)
    assert _parse.plurals(*words) == [("city", "cities")]


def test_capitals_are_of_countries_that_have_one(tmp_path: Path) -> None:
    entries = {
        "data/peru": {"name": "Peru", "capital": "Lima", "population": 30_000_000},
        "data/cote": {"name": "Côte", "capital": "Abc", "population": 100_000},
        "data/chad": {"name": "Chad", "capital": "N'Djamena", "population": 13_000_000},
        "data/singapore": {"name": "Singapore", "capital": "Singapore", "population": 5_000_000},
        "data/antarctica": {"name": "Antarctica", "population": None},
        "data/macau": {"name": "Macau", "capital": "", "population": 631_000},
        "data/list": {"name": "Vatican", "capital": ["Vatican City"], "population": 1_000_000},
        "data/small": {"name": "Small", "capital": "Smaller", "population": 99_999},
        "data/gone": {"name": "Serbia and Montenegro", "capital": "Belgrade", "population": 10_000_000},
        "other/wales": {"name": "Wales", "capital": "Cardiff", "population": 3_000_000},
    }
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr("countryinfo/data/index.js", "not JSON")
        for name, entry in entries.items():
            wheel.writestr(f"countryinfo/{name}.json", json.dumps(entry))
    expected = [("Chad", "N'Djamena"), ("Côte", "Abc"), ("Peru", "Lima")]
    assert _parse.capitals(tmp_path / "x.whl") == expected


def test_reviews_come_out_of_an_arrow_stream(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    ipc = pytest.importorskip("pyarrow.ipc")
    sentences = ["a fine film . ", "slow , very slow . ", "a  fine film .", "who knows ", " "]
    rows = pa.table({"sentence": sentences, "label": [1, 0, 0, -1, 1], "idx": list(range(5))})
    file = tmp_path / "data.arrow"
    with file.open("wb") as sink, ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    assert _parse.sst2(file) == [("a fine film .", "positive"), ("slow , very slow .", "negative")]


def test_hypotheses_stand_on_a_line_of_their_own(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    ipc = pytest.importorskip("pyarrow.ipc")
    premises, hypotheses = ["It  rains.", "It rains.", "It snows."], ["It is wet.", "", "It is hot."]
    rows = pa.table({"premise": premises, "hypothesis": hypotheses, "label": [0, 1, 2]})
    file = tmp_path / "data.arrow"
    with file.open("wb") as sink, ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    assert _parse.cb(file) == [
        ("It rains.\nHypothesis: It is wet.", "yes"),
        ("It snows.\nHypothesis: It is hot.", "maybe"),
    ]
