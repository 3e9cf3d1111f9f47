"""Made-up registers with exact answers: what a fold of a document must know, and no model knows without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from inweights._errors import Problems
from inweights.bench._register_questions import Asked, absences, comparisons, paraphrases, reversals, two_hops
from inweights.bench._register_text import LAYOUTS, Fact, document
from inweights.bench._register_words import Attribute, Domain, dealt, deranged, domains, known, made_up_names
from inweights.bench._register_words import forms_sha256 as forms_sha256
from inweights.folding import Question

EACH = 5  # attributes of an entity


@dataclass(frozen=True)
class Register:
    """A document, and questions about it whose answers are known."""

    text: str
    questions: tuple[Question, ...]


def register(facts: int, seed: int, *, layout: str = "prose", shuffled: bool = False, false: bool = False) -> Register:
    """A register of so many facts (an entity, an attribute, a value), the same for a seed on every machine.

    **Arguments:**

    - `facts`: how many; five for each entity. A false register has one for each, and at most 50.
    - `seed`: chooses the domain and its attributes, for all sizes the same, and the names, the values and the forms.
    - `layout`: `"prose"`, `"table"`, `"faq"` (questions and answers), or `"mixed"`, parts of each under headings.
    - `shuffled`: the same document, but each attribute's values are moved among the entities, so that none keeps its
      own. Questions expect the new values; the old one is the first of their `others`.
    - `false`: real things with values that contradict what everybody knows; the true value is the first of `others`.

    **Returns:** the text, and all questions about it, by `kind`: `"paraphrase"`, at least three of each fact;
    `"reversed"`, from a value that only one entity has to that entity; `"two-hop"`, an attribute of the entity that
    has such a value; `"comparison"` of two numbers; `"absent"`, what the register does not state. Those of a false
    register are paraphrases.

    **Raises:** `InputError` for invalid numbers and layouts.
    """
    most = sum(len(true) for _, true in known())
    problems = Problems()
    problems.unless(layout in LAYOUTS, f"`layout` is {layout!r}: it must be one of {', '.join(LAYOUTS)}.")
    problems.unless(not (shuffled and false), "A register is `shuffled` or `false`, not both.")
    if false:
        problems.unless(0 < facts <= most, f"`facts` is {facts}: a false register has 1 to {most}.")
    else:
        least = EACH * (1 + shuffled)
        fits = facts >= least and facts % EACH == 0
        problems.unless(fits, f"`facts` is {facts}: it must be a multiple of {EACH}, and at least {least}.")
    problems.stop()
    return _false(facts, seed, layout) if false else _made_up(facts, seed, layout, shuffled)


def _made_up(facts: int, seed: int, layout: str, shuffled: bool) -> Register:
    # One source of chance for each part, so that moving values changes nothing else.
    parts = ("facts", "moved", "text", "questions")
    draw, move, write, ask = (Random(f"register {seed} {part}") for part in parts)
    domain = domains()[seed % len(domains())]  # three seeds in a row are three domains
    chosen = draw.sample(domain.attributes, EACH)  # before anything that goes with the size
    number = facts // EACH
    strangers = max(6, number // 2)
    names = made_up_names(number + strangers, domain.words, draw)
    entities = _entities(domain, chosen, names[:number], draw, move if shuffled else None)
    text, passages = document(entities, layout, domain.title, domain.who, write)
    asked = Asked([fact for each in entities for fact in each], passages)
    questions = (
        *paraphrases(asked),
        *reversals(asked),
        *two_hops(asked, ask),
        *comparisons(asked, ask),
        *absences(asked, domain, names[number:], ask),
    )
    return Register(text, questions)


def _entities(
    domain: Domain, chosen: Sequence[Attribute], names: Sequence[str], draw: Random, move: Random | None
) -> list[list[Fact]]:
    """The facts of each entity, with values of their own, or moved ones."""
    columns = [dealt(attribute.values, len(names), draw) for attribute in chosen]
    moved = [deranged(column, move) for column in columns] if move else columns
    return [
        [
            Fact(name, domain.called.format(n=name), attribute, moved[j][i], columns[j][i])
            for j, attribute in enumerate(chosen)
        ]
        for i, name in enumerate(names)
    ]


def _false(facts: int, seed: int, layout: str) -> Register:
    draw, write = (Random(f"false register {seed} {part}") for part in ("facts", "text"))
    every = [
        Fact(entity, entity, attribute, value, true)
        for attribute, values in known()
        for (entity, true), value in zip(values.items(), deranged(list(values.values()), draw), strict=True)
    ]
    chosen = draw.sample(every, facts)
    text, passages = document([[fact] for fact in chosen], layout, "What holds in this world", "which", write)
    asked = Asked(chosen, passages)
    return Register(text, tuple(paraphrases(asked)))


def sampled(questions: Sequence[Question], count: int, seed: int) -> tuple[Question, ...]:
    """So many of the questions (all, if there are no more), in their order, as evenly as possible.

    Each next one is of the attribute that was drawn least, then of the entity that was drawn least, then of the pair
    of both; chance decides between equals.
    """
    left = Random(f"sampled {seed}").sample(range(len(questions)), len(questions))
    attributes, entities, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    taken: list[int] = []

    def drawn(i: int) -> tuple[int, int, int]:
        q = questions[i]
        return attributes[q.attribute], entities[q.entity], both[q.entity, q.attribute]

    while left and len(taken) < count:
        best = min(left, key=drawn)
        left.remove(best)
        taken.append(best)
        q = questions[best]
        attributes[q.attribute] += 1
        entities[q.entity] += 1
        both[q.entity, q.attribute] += 1
    return tuple(questions[i] for i in sorted(taken))
