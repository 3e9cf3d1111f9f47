"""Parsers that turn downloaded files into pairs of a question and its answer.

Pairs with an answer equal to the question (`put`, `sheep`, `Singapore`) are dropped, as copying needs no skill.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

Pairs = list[tuple[str, str]]

COMMONEST = 300  # number of word pairs that are kept
_PEOPLE = 100_000  # the least population of a country; smaller territories are left out
# Correct, but crude, or not the most common use of the word.
_WORDS_LEFT_OUT = frozenset(
    ("babe", "bit", "bra", "cam", "chick", "doe", "dos", "other", "pro", "slut", "thong", "vibrator")
)
# The capital has moved or is disputed, or the entry is not a country today.
_COUNTRIES_LEFT_OUT = frozenset(
    (
        "Bolivia", "Burundi", "Hong Kong", "Israel", "Kazakhstan", "Palestine", "Serbia and Montenegro", "Sri Lanka",
        "Swaziland", "Western Sahara",
    )
)  # fmt: skip
SENTIMENTS = ("negative", "positive")  # the labels 0 and 1
RTE = ("yes", "no")  # whether the hypothesis follows
CB = ("yes", "no", "maybe")  # it follows, it is contradicted, or neither


def past_tense(table: Path, counts: Path) -> Pairs:
    """Verbs with one past tense: `walk`, `walked`.

    **Arguments:**

    - `table`: lines `walk,verb,walked,,walking,walks`, gzipped; alternative forms are separated by a slash.
    - `counts`: lines `walk 73145`, the number of occurrences of a word.
    """
    verbs = [(word, forms) for word, kind, *forms in _lines(table) if kind == "verb"]
    # "found", "felt" and "left" are also verbs themselves, but mostly past tenses of other verbs.
    pasts = {past for word, forms in verbs for form in forms[:2] for past in form.split("/") if past != word}
    return _commonest(((word, forms[0]) for word, forms in verbs if word not in pasts), counts)


def plurals(table: Path, counts: Path) -> Pairs:
    """Nouns with one plural that are nothing but nouns: `city`, `cities`. The files are those of `past_tense`."""
    lines = list(_lines(table))
    others = {word for word, kind, *_ in lines if kind != "noun"}
    nouns = ((word, forms[0]) for word, kind, *forms in lines if kind == "noun" and word not in others)
    return _commonest(nouns, counts)


def capitalise(table: Path, counts: Path) -> Pairs:
    """The nouns of `plurals` with a capital letter: `city`, `City`."""
    return [(word, word.capitalize()) for word, _ in plurals(table, counts)]


def capitals(wheel: Path) -> Pairs:
    """Countries and their capitals, by name: `France`, `Paris`. The wheel has one JSON file for each country."""
    results = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not re.fullmatch(r"countryinfo/data/[^/]+\.json", name):
                continue
            entry: dict[str, Any] = json.loads(archive.read(name))
            country, capital = entry.get("name"), entry.get("capital")
            known = isinstance(country, str) and isinstance(capital, str) and country and capital
            if known and country != capital and (entry.get("population") or 0) >= _PEOPLE:
                results[str(country)] = str(capital)
    return sorted((country, capital) for country, capital in results.items() if country not in _COUNTRIES_LEFT_OUT)


def sst2(stream: Path) -> Pairs:
    """Sentences of film reviews and `positive` or `negative`, in the order of the file, an Arrow stream."""
    return _labelled(stream, ("sentence",), SENTIMENTS)


def rte(stream: Path) -> Pairs:
    """A sentence, a hypothesis on a line of its own, and whether it follows: `yes` or `no`."""
    return _labelled(stream, ("sentence1", "sentence2"), RTE)


def cb(stream: Path) -> Pairs:
    """A text, a hypothesis on a line of its own, and whether it follows: `yes`, `no` or `maybe`."""
    return _labelled(stream, ("premise", "hypothesis"), CB)


def _labelled(stream: Path, columns: tuple[str, ...], labels: tuple[str, ...]) -> Pairs:
    """The rows of an Arrow stream that have a text and a label, in the order of the file and without duplicates."""
    ipc = import_module("pyarrow.ipc")
    with stream.open("rb") as file, ipc.open_stream(file) as reader:
        rows = reader.read_all().to_pylist()
    texts: dict[str, str] = {}
    for row in rows:
        parts = [" ".join(row[column].split()) for column in columns]
        if all(parts) and row["label"] in range(len(labels)):  # -1 marks a hidden label
            texts.setdefault("\nHypothesis: ".join(parts), labels[row["label"]])
    return list(texts.items())


def _lines(table: Path) -> Iterable[list[str]]:
    with gzip.open(table, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n").split(",")


def _commonest(result: Iterable[tuple[str, str]], counts: Path) -> Pairs:
    """The `COMMONEST` pairs of plain lower-case words, by the count of the rarer word, the most common first."""
    seen = dict(line.split() for line in counts.read_text(encoding="utf-8").splitlines() if line)
    plain = re.compile(r"[a-z]{2,}").fullmatch
    good: dict[str, str] = {}
    for word, form in result:
        if plain(word) and plain(form) and word != form and word not in _WORDS_LEFT_OUT:
            good.setdefault(word, form)

    def rarity(pair: tuple[str, str]) -> tuple[int, str]:
        return -min(int(seen.get(word, 0)) for word in pair), pair[0]

    return sorted(good.items(), key=rarity)[:COMMONEST]
