"""A register as a document: prose, table, questions and answers, or parts of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from inweights.bench._register_words import Attribute

LAYOUTS = ("prose", "table", "faq", "mixed")


@dataclass(frozen=True)
class Fact:
    """An entity, the way a text names it, an attribute and its value; `old`: its value before values were moved."""

    entity: str
    subject: str
    attribute: Attribute
    value: str
    old: str

    @property
    def key(self) -> tuple[str, str]:
        """The entity and attribute of the fact."""
        return self.entity, self.attribute.name

    @property
    def shown(self) -> str:
        """The value with its unit."""
        return self.attribute.filled(self.attribute.shown, self.subject, self.value)


Entities = Sequence[Sequence[Fact]]
Passages = dict[tuple[str, str], str]


def document(entities: Entities, layout: str, title: str, who: str, chance: Random) -> tuple[str, Passages]:
    """A register's text, and for each entity and attribute the passage that states it.

    **Arguments:**

    - `entities`: the facts of each entity.
    - `who`: the relative pronoun of an entity.
    - `chance`: chooses forms and the order of facts within prose.
    """
    head = f"# {title}\n\n"
    if layout == "prose":
        text, passages = _prose(entities, who, chance)
        return f"{title}.\n\n{text}", passages
    if layout == "table":
        text, passages = _table(entities)
        return head + text, passages
    if layout == "faq":
        text, passages = _faq(entities, chance)
        return head + text, passages
    third = -(-len(entities) // 3)
    notes, noted = _prose(entities[:third], who, chance)
    rows, listed = _table(entities[third : 2 * third])
    pairs, asked = _faq(entities[2 * third :], chance)
    parts = {"Notes": notes, "Table": rows, "Questions and answers": pairs}
    whole = "\n\n".join(f"## {name}\n\n{part}" for name, part in parts.items() if part)
    return head + whole, noted | listed | asked


def capital(text: str) -> str:
    """With a capital letter, as sentences begin."""
    return text[:1].upper() + text[1:]


def _listed(clauses: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(clauses[:-1]), clauses[-1])))


def _sentences(facts: Sequence[Fact], who: str, chance: Random) -> list[tuple[str, Sequence[Fact]]]:
    """One or two sentences about an entity, each with the facts in it; every one names the entity."""
    facts = chance.sample(facts, len(facts))
    clauses = [f.attribute.filled(chance.choice(f.attribute.clauses), f.subject, f.value) for f in facts]
    style, subject = chance.choice((0, 0, 0, 1, 2, 3)), facts[0].subject
    if style == 0 or len(facts) < 4:
        return [(f"{capital(subject)} {_listed(clauses)}.", facts)]
    cut = 3 if style == 1 else 2
    first = {
        1: f"{capital(subject)} {_listed(clauses[:cut])}.",
        2: f"{capital(subject)}, {who} {clauses[0]}, {clauses[1]}.",
        3: f"Note that {subject} {_listed(clauses[:cut])}.",
    }[style]
    second = f"{capital(subject)} {_listed(clauses[cut:])}."
    return [(first, facts[:cut]), (second, facts[cut:])]


def _prose(entities: Entities, who: str, chance: Random) -> tuple[str, Passages]:
    """Paragraphs of five entities each."""
    passages: Passages = {}
    paragraphs: list[list[str]] = []
    for i, facts in enumerate(entities):
        if i % 5 == 0:
            paragraphs.append([])
        for sentence, within in _sentences(facts, who, chance):
            paragraphs[-1].append(sentence)
            passages |= {fact.key: sentence for fact in within}
    return "\n\n".join(map(" ".join, paragraphs)), passages


def _table(entities: Entities) -> tuple[str, Passages]:
    """A row for each entity; where attributes differ, a row for each fact. A passage is the header and one row."""
    if not entities:
        return "", {}
    names = [fact.attribute.name for fact in entities[0]]
    if all([fact.attribute.name for fact in facts] == names for facts in entities):
        header = ["name", *names]
        rows = [([facts[0].entity, *(f.shown for f in facts)], facts) for facts in entities]
    else:
        header = ["subject", "property", "value"]
        rows = [([f.entity, f.attribute.name, f.shown], [f]) for facts in entities for f in facts]
    top = f"| {' | '.join(header)} |\n|{' --- |' * len(header)}"
    lines = [(f"| {' | '.join(cells)} |", facts) for cells, facts in rows]
    passages = {f.key: f"{top}\n{line}" for line, facts in lines for f in facts}
    return "\n".join([top, *(line for line, _ in lines)]), passages


def _faq(entities: Entities, chance: Random) -> tuple[str, Passages]:
    """A question and its short answer for each fact."""
    passages = {
        f.key: f"Q: {f.attribute.filled(chance.choice(f.attribute.asks), f.subject, f.value)}\nA: {capital(f.shown)}."
        for facts in entities
        for f in facts
    }
    return "\n\n".join(passages.values()), passages
