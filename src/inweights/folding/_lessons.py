"""Lessons: the examples that a fold is fitted to: how the context makes a model answer, and what it states."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inweights.folding._answers import Question
from inweights.folding._examples import Examples
from inweights.folding._frame import Frame
from inweights.folding._general import general
from inweights.folding._lora import linear_modules
from inweights.folding._steps import KNOWN, Steps
from inweights.folding._study import Study
from inweights.folding._teach import Studied
from inweights.models import Model

HELD_OUT = 100
"""Studied questions that are kept apart to judge the fold, at most; of each fact one, and only of those with others."""
LEAST = 4
"""Facts that a context must state to be studied."""
MIX = 4
"""One query in so many of the second part is one of the first, so that the style is not lost."""
WIDTH = 896
"""The width of the model that the rate was chosen on."""
FEW = {"cuda": 64, "cpu": 24}
"""Generic queries for a context that only states facts."""
SHORT = 24
"""Tokens of their answers that are fitted beside facts: enough to keep the style, and as short as facts are."""
PASSES = {"cuda": 15, "cpu": 10}
"""How often each question is seen."""
REPEATED = 5
"""How often each question is seen for every plain text: of those, many are wanted, or the few are learned by heart."""
GENERAL, LEAST_GENERAL = 0.15, {"cuda": 60, "cpu": 320}
"""The share and least number of plain texts that the bare model goes on with as ever."""
PLAIN_WEIGHT = 1.0
"""How much a token of a plain text counts against one of an answer."""


@dataclass(frozen=True)
class Lessons:
    """What a fold is fitted to.

    - `style`: generic queries with answers of the prompted model; empty if the context is too long to be read whole.
    - `facts`: studied questions with some of the former and some plain text; `None` if the context states no facts.
    - `held_out`: studied questions that are not fitted.
    """

    style: Examples | None
    facts: Examples | None
    held_out: tuple[Studied, ...]


def lessons(frame: Frame, style: Examples | None, study: Study, seed: int = 0) -> Lessons:
    """The examples, from generic queries and from what was studied."""
    if len(study.asked) < LEAST:
        return Lessons(style, None, ())
    fitted, held_out = apart(study, seed)
    least = LEAST_GENERAL["cuda" if frame.model.device.type == "cuda" else "cpu"]
    plain = general(frame, max(least, round(GENERAL * len(fitted))), seed)
    facts = as_examples(frame, fitted).repeated(REPEATED) + plain.weighted(PLAIN_WEIGHT)
    if style is not None:
        some = random.Random(seed).sample(range(len(style)), min(len(style), len(fitted) // MIX))
        facts = facts + style.some(some).shortened(SHORT).repeated(REPEATED)
    return Lessons(style, facts, held_out)


def only_facts(study: Study) -> bool:
    """Whether a context states facts and directs nothing: then there is no style to fold."""
    return len(study.asked) >= LEAST and not any(piece.directs for piece in study.pieces)


def apart(study: Study, seed: int) -> tuple[list[Studied], tuple[Studied, ...]]:
    """Questions to fit, and questions to judge by: one the model wrote, of facts that have at least three."""
    rnd = random.Random(seed)
    by_fact: dict[tuple[int, str], list[Studied]] = {}
    for q in study.questions:
        if q.phrase:
            by_fact.setdefault((q.piece, q.phrase), []).append(q)
    asked = [[q for q in some if not q.known] for some in by_fact.values() if len(some) >= 3]
    candidates = [rnd.choice(some) for some in asked if some]
    held_out = rnd.sample(candidates, min(HELD_OUT, len(candidates)))
    out = {id(q) for q in held_out}
    return [q for q in study.questions if id(q) not in out], tuple(held_out)


def as_examples(frame: Frame, questions: Sequence[Studied]) -> Examples:
    """Studied questions as examples, each with its own teacher."""
    return Examples(
        frame,
        tuple(q.query for q in questions),
        tuple(frame.asked(q.query) for q in questions),
        tuple(q.answer for q in questions),
        tuple(q.taught for q in questions),
        tuple(q.known for q in questions),
    )


def as_questions(study: Study, held_out: Sequence[Studied]) -> list[Question]:
    """Held-out questions with what makes an answer right."""
    return [Question(q.query, q.phrase, passage=study.pieces[q.piece].reads, kind="studied") for q in held_out]


def steps_for_facts(model: Model, examples: Examples, rank: int) -> Steps:
    """How many steps the examples are worth, and the rate: each is seen `PASSES` times, less often where that takes
    minutes.

    A higher rank takes a lower rate: its update moves more for the same step of its factors. So does a wider model;
    the power was fitted to two of them (docs/log.md).
    """
    device = "cuda" if model.device.type == "cuda" else "cpu"
    base = KNOWN[device]
    seen = sum(map(examples.times_of, range(len(examples)))) / REPEATED
    count = round(PASSES[device] * seen / base.batch)
    width = model.model.get_parameter(f"{linear_modules(model)[0]}.weight").shape[-1]
    slower = min(1.0, (16 / rank) ** 0.5) * min(2.0, (WIDTH / width) ** 1.5)
    return replace(base, count=max(64, min(4000, count)), rate=base.rate * slower)
