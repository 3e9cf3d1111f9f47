"""What tests ask about a register: every fact in several forms, backwards, over two steps, compared, and absent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from inweights.bench._register_text import Fact, Passages
from inweights.bench._register_words import Domain
from inweights.folding import Question


@dataclass(frozen=True)
class Asked:
    """A register's facts, and by entity and attribute the passages that state them."""

    facts: Sequence[Fact]
    passages: Passages

    def others(self, fact: Fact) -> tuple[str, ...]:
        """The other values of a fact's attribute in this register, the old one first."""
        values = [fact.old, *(f.value for f in self.facts if f.attribute.name == fact.attribute.name)]
        return tuple(dict.fromkeys(value for value in values if value != fact.value))

    def named(self, right: Fact, old: Fact) -> tuple[str, ...]:
        """The other entities, the one that was right before first."""
        names = [old.entity, *(f.entity for f in self.facts)]
        return tuple(dict.fromkeys(name for name in names if name != right.entity))

    def unique(self) -> list[Fact]:
        """The facts whose value no other entity has."""
        counts = Counter((f.attribute.name, f.value) for f in self.facts)
        return [f for f in self.facts if counts[f.attribute.name, f.value] == 1]

    def before(self, fact: Fact) -> Fact:
        """Which fact of the same attribute had this one's value before values were moved: itself, if none were."""
        return next(f for f in self.facts if f.attribute.name == fact.attribute.name and f.old == fact.value)


def paraphrases(asked: Asked) -> Iterator[Question]:
    """Every fact in every form."""
    for fact in asked.facts:
        others = asked.others(fact)
        for form in fact.attribute.tests:
            text = fact.attribute.filled(form, fact.subject)
            yield Question(text, fact.value, others, asked.passages[fact.key], "paraphrase", *fact.key)


def reversals(asked: Asked) -> Iterator[Question]:
    """From a unique value to its entity."""
    for i, fact in enumerate(f for f in asked.unique() if f.attribute.back):
        form = fact.attribute.back[i % len(fact.attribute.back)]
        others = asked.named(fact, asked.before(fact))
        text = fact.attribute.filled(form, value=fact.value)
        yield Question(text, fact.entity, others, asked.passages[fact.key], "reversed", *fact.key)


def two_hops(asked: Asked, chance: Random) -> Iterator[Question]:
    """For each entity, an attribute of the one that has its unique value of another attribute."""
    by_key = {f.key: f for f in asked.facts}
    unique: dict[str, list[Fact]] = {}
    for fact in asked.unique():
        unique.setdefault(fact.entity, []).append(fact)
    for entity, facts in unique.items():
        known = chance.choice(facts)
        wanted = chance.choice([f for f in asked.facts if f.entity == entity and f is not known])
        subject = known.attribute.filled(known.attribute.having, value=known.value)
        text = wanted.attribute.filled(chance.choice(wanted.attribute.tests), subject)
        old = by_key[asked.before(known).entity, wanted.attribute.name].old
        others = tuple(v for v in dict.fromkeys((old, *asked.others(wanted))) if v != wanted.value)
        passage = "\n".join(dict.fromkeys((asked.passages[known.key], asked.passages[wanted.key])))
        yield Question(text, wanted.value, others, passage, "two-hop", *wanted.key)


def comparisons(asked: Asked, chance: Random) -> Iterator[Question]:
    """Which of two entities has the larger number: every entity once, for each attribute that is a number."""
    attributes = {f.attribute.name: f.attribute for f in asked.facts if f.attribute.more}
    for name, attribute in attributes.items():
        facts = [f for f in asked.facts if f.attribute.name == name]
        drawn = chance.sample(facts, len(facts))
        for i, (one, two) in enumerate(zip(drawn[::2], drawn[1::2], strict=False)):
            if one.value == two.value:
                continue
            more, less = (one, two) if float(one.value) > float(two.value) else (two, one)
            form = attribute.more[i % len(attribute.more)]
            text = form.format(x=one.subject, y=two.subject)
            text = text[:1].upper() + text[1:]
            passage = "\n".join(dict.fromkeys((asked.passages[one.key], asked.passages[two.key])))
            yield Question(text, more.entity, (less.entity,), passage, "comparison", *more.key)


def absences(asked: Asked, domain: Domain, strangers: Sequence[str], chance: Random) -> Iterator[Question]:
    """Questions about what the register does not state: in turns about an entity that is not in it, and about a missing
    attribute of one that is.

    `others` are values that an invented answer may offer.
    """
    given = {f.attribute.name: f.attribute for f in asked.facts}
    omitted = [(form, a.values, a.name) for a in domain.attributes if a.name not in given for form in a.tests]
    omitted += [(form, (), "") for form in domain.absent]
    entities = list(dict.fromkeys((f.entity, f.subject) for f in asked.facts))
    for i, stranger in enumerate(strangers):
        if i % 2:
            entity, subject = entities[(i * 7) % len(entities)]
            form, others, name = omitted[i // 2 % len(omitted)]
            passage = "\n".join(dict.fromkeys(asked.passages[f.key] for f in asked.facts if f.entity == entity))
            yield Question(form.format(e=subject), "", others, passage, "absent", entity, name)
        else:
            attribute = list(given.values())[i // 2 % len(given)]
            others = tuple(dict.fromkeys(f.value for f in asked.facts if f.attribute.name == attribute.name))
            text = attribute.filled(chance.choice(attribute.tests), domain.called.format(n=stranger))
            yield Question(text, "", others, "", "absent", stranger, attribute.name)
