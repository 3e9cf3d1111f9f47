"""The parts of made-up registers: domains with their attributes and forms, and names that do not exist."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "j", "k", "kl", "l", "m", "n", "p", "pl", "r", "s", "sk", "t",
           "tr", "v", "w", "z")  # fmt: skip
_VOWELS = ("a", "e", "i", "o", "u")
_ENDS = ("lk", "rsk", "nx", "lv", "rv", "mb", "lz", "rx")


@dataclass(frozen=True)
class Attribute:
    """An attribute of entities, with the forms in which a document states it and a test asks for it.

    `shown` is the value as tables and short answers write it. The forms are those of `registers.toml`; only numbers
    that can be compared have forms in `more`.
    """

    name: str
    values: tuple[str, ...]
    clauses: tuple[str, ...]
    asks: tuple[str, ...]
    tests: tuple[str, ...]
    back: tuple[str, ...] = ()
    having: str = ""
    more: tuple[str, ...] = ()
    shown: str = "{v}"

    def filled(self, form: str, subject: str = "", value: str = "") -> str:
        """A form with its entity and its value filled in."""
        article = "an" if value[:1] in "aeiou" else "a"
        return form.format(e=subject, v=value, a=article)


@dataclass(frozen=True)
class Domain:
    """What a register is about: `called` is how a text names an entity (`the {n}`), `absent` asks what no text says."""

    name: str
    title: str
    noun: str
    who: str
    called: str
    words: int
    absent: tuple[str, ...]
    attributes: tuple[Attribute, ...]


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads((files("inweights.bench") / "registers.toml").read_text(encoding="utf-8"))


def _values(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """All values of an attribute: listed, from a range, times of the day, or people's names."""
    if "values" in entry:
        return tuple(entry["values"])
    if "people" in entry:
        return tuple(f"{a} {b}" for a in _file()["first"] for b in _file()["last"])
    if "times" in entry:
        first, last, step = entry["times"]
        return tuple(f"{t // 60}:{t % 60:02}" for t in range(first, last + 1, step))
    first, last, step = (round(100 * x) for x in entry["range"])
    whole = all(isinstance(x, int) for x in entry["range"])
    return tuple(str(x // 100) if whole else f"{x / 100:.2f}" for x in range(first, last + 1, step))


def _attribute(entry: Mapping[str, Any], values: tuple[str, ...]) -> Attribute:
    forms = {key: tuple(entry.get(key, ())) for key in ("clauses", "asks", "tests", "back", "more")}
    return Attribute(
        name=entry["name"], values=values, having=entry.get("having", ""), shown=entry.get("shown", "{v}"), **forms
    )


@cache
def domains() -> tuple[Domain, ...]:
    """The domains of made-up registers."""

    def one(entry: Mapping[str, Any]) -> Domain:
        attributes = tuple(_attribute(a, _values(a)) for a in entry["attribute"])
        plain = {key: entry[key] for key in ("name", "title", "noun", "who", "called", "words")}
        return Domain(**plain, absent=tuple(entry["absent"]), attributes=attributes)

    return tuple(one(entry) for entry in _file()["domain"])


@cache
def known() -> tuple[tuple[Attribute, dict[str, str]], ...]:
    """What everybody knows: attributes, each with true values by entity."""
    return tuple((_attribute(e, tuple(e["facts"].values())), dict(e["facts"])) for e in _file()["known"])


def forms_sha256() -> str:
    """The hash of all forms that tests ask with: it changes when one of them does."""
    attributes = [(d.name, a) for d in domains() for a in d.attributes] + [("known", a) for a, _ in known()]
    forms = [[home, a.name, a.tests, a.back, a.having, a.more] for home, a in attributes]
    absent = [[d.name, d.absent] for d in domains()]
    return hashlib.sha256(json.dumps([forms, absent], ensure_ascii=False).encode()).hexdigest()


def made_up_names(count: int, words: int, chance: Random) -> list[str]:
    """So many different names of so many words, of syllables. No two words of them begin with the same two syllables,
    and none is part of another."""
    results: list[str] = []
    begun: set[str] = set()
    for _ in range(1000 + 100 * count * words):
        first, second = (chance.choice(_ONSETS) + chance.choice(_VOWELS) for _ in range(2))
        begin, whole = first + second, first + second + chance.choice(_ENDS)
        if begin not in begun and not any(whole in other or other in whole for other in results):
            begun.add(begin)
            results.append(whole)
        if len(results) == count * words:
            break
    capital = [word.capitalize() for word in results]
    return [" ".join(capital[i : i + words]) for i in range(0, count * words, words)]


def dealt(values: Sequence[str], count: int, chance: Random) -> list[str]:
    """So many of the values in random order, each as often as any other, give or take one."""
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += chance.sample(values, min(len(values), count - len(drawn)))
    return drawn


def deranged(values: Sequence[str], chance: Random) -> list[str]:
    """The same values in another order, none in its old place, and none where the same one stood.

    Sorted by value and moved on by the length of the longest run: possible where none is more than half of all.
    """
    kinds = list(dict.fromkeys(values))
    rank = {value: i for i, value in enumerate(chance.sample(kinds, len(kinds)))}
    order = sorted(chance.sample(range(len(values)), len(values)), key=lambda i: rank[values[i]])
    step = max(values.count(value) for value in kinds)
    result = list(values)
    for place, source in zip(order, order[step:] + order[:step], strict=True):
        result[place] = values[source]
    return result
