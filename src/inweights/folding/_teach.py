"""Teach: the answers to studied questions, by the model that reads a window of the context, or all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from inweights.folding._answers import words
from inweights.folding._facts import Fact
from inweights.folding._frame import Frame
from inweights.folding._methods import batch_tokens
from inweights.folding._pieces import SMALL, Piece, marked
from inweights.folding._teacher import answer_scores
from inweights.running import sample

SHORT, LONG = 24, 32
"""New tokens of an answer that names a phrase, and of one that states everything."""
GAIN = 1.0
"""Nats by which reading must raise the log-probability of the answer."""
LIKELY = -0.7
"""The mean log-probability of a phrase's tokens from which it counts as the answer of a reader that wrote another."""
WHOLE = 1024
"""Tokens of a context up to which its answers are compared with those of the window."""


@dataclass(frozen=True)
class Draft:
    """A question about a piece, and the phrase of its answer; empty for everything that the piece states.

    `answer`: the answer, where it follows from the construction of the question; otherwise the model answers. A
    sentence is replaced by the model's own, where that names the phrase too.
    """

    query: str
    piece: int
    phrase: str
    answer: str = ""


@dataclass(frozen=True)
class Studied:
    """A question about a piece, with the answer of a model that reads it.

    - `answer`: its tokens.
    - `taught`: all tokens that the teacher read before the answer; `None` for the whole context and the query.
    - `known`: the answer follows from the way in which the question was made.
    """

    query: str
    piece: int
    phrase: str
    answer: tuple[int, ...]
    taught: tuple[int, ...] | None
    known: bool = False


@dataclass
class Reader:
    """The model as a reader of texts, in the system's turn or in the user's."""

    frame: Frame
    turn: str = "system"
    known: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def prompt(self, text: str, query: str) -> tuple[int, ...]:
        """The tokens of a query to a model after a text."""
        frame = self.frame
        if self.turn == "user":
            return (*frame.before, *frame.asked(f"{text}\n\n{query}"))
        if text not in self.known:
            self.known[text] = Frame.of(frame.model, text, chat=frame.chat).folded
        return (*frame.before, *self.known[text], *frame.asked(query))


class Lookup:
    """A text in which many values are looked up, as `contains` does it."""

    def __init__(self, text: str) -> None:
        self.line = f" {' '.join(words(text))} "

    def has(self, value: str) -> bool:
        """Whether the text contains a value as whole words."""
        wanted = words(value)
        return bool(wanted) and f" {' '.join(wanted)} " in self.line


def taught(reader: Reader, parts: Sequence[Piece], facts: Sequence[Fact], drafts: Sequence[Draft]) -> list[Studied]:
    """The questions that the model answers with a fact of their piece when it reads the piece.

    The answer contains a fact that the question does not (the one in question, if it does), and no name or
    number that stands neither in the context nor in the question; it is `GAIN` nats likelier than by the bare model.
    Where the whole context makes the same answer likelier than the window does, the context is the teacher.
    """
    frame, size = reader.frame, batch_tokens(reader.frame.model)
    prompts = [reader.prompt(parts[d.piece].reads, d.query) for d in drafts]
    answers = [(*_ids(frame, d.answer), frame.end) for d in drafts]
    context = Lookup(frame.context)
    open_ = [k for k, d in enumerate(drafts) if not d.answer or d.answer != d.phrase]
    new = [SHORT if drafts[k].phrase else LONG for k in open_]
    for k, answer in zip(open_, greedy(frame, [prompts[k] for k in open_], new), strict=True):
        if not drafts[k].answer or _as_good(frame, context, drafts[k], answer):
            answers[k] = answer
    texts = frame.model.tokenizer.batch_decode(answers, skip_special_tokens=True)
    stated: dict[int, list[str]] = {}
    for fact in facts:
        stated.setdefault(fact.piece, []).append(fact.phrase)
    named = [_named(context, d, stated.get(d.piece, []), text) for d, text in zip(drafts, texts, strict=True)]
    for k in _likely(frame, prompts, drafts, [k for k, phrase in enumerate(named) if phrase is None]):
        named[k], answers[k] = drafts[k].phrase, (*_ids(frame, drafts[k].phrase), frame.end)
    good = [k for k, phrase in enumerate(named) if phrase is not None]
    record = [answers[k] for k in good]
    asked = [frame.asked(drafts[k].query) for k in good]
    local = answer_scores(frame.model, [prompts[k] for k in good], record, batch_tokens=size)
    bare = answer_scores(frame.model, asked, record, frame.before, batch_tokens=size)
    whole = [-1e9] * len(good)
    if len(frame.folded) <= WHOLE:
        whole = answer_scores(frame.model, asked, record, (*frame.before, *frame.folded), batch_tokens=size)
    results = []
    for k, window, full, without in zip(good, local, whole, bare, strict=True):
        if max(window, full) - without >= GAIN:
            d, teacher = drafts[k], None if full > window else prompts[k]
            results.append(Studied(d.query, d.piece, named[k] or "", answers[k], teacher, bool(d.answer)))
    return results


def _as_good(frame: Frame, context: Lookup, draft: Draft, answer: tuple[int, ...]) -> bool:
    """Whether the model's own answer is complete, names the phrase of the sentence that would be taught instead, and
    adds nothing: a weak model invents the rest ("a ship of the sea"), which its student then repeats everywhere."""
    text = frame.model.tokenizer.decode(answer, skip_special_tokens=True)
    added = set(words(text)) - set(words(draft.answer)) - set(words(draft.query)) - SMALL
    return not added and frame.ended(answer[-1]) and _named(context, draft, (), text) == draft.phrase


def _named(context: Lookup, draft: Draft, facts: Sequence[str], answer: str) -> str | None:
    """The fact that an answer names; empty if the question is about all; `None` for no fact or an invented one."""
    given, query = Lookup(answer), Lookup(draft.query)
    if not all(context.has(m) or query.has(m) for m in marked(answer)):
        return None
    there = [f for f in (draft.phrase, *facts) if f and given.has(f) and not query.has(f)]
    if not draft.phrase:
        return "" if there else None
    return there[0] if there else None


def _likely(frame: Frame, prompts: Sequence[tuple[int, ...]], drafts: Sequence[Draft], failed: list[int]) -> list[int]:
    """The questions that a weak reader answers badly, but gives the phrase a high probability as the answer."""
    tried = [k for k in failed if drafts[k].phrase and not Lookup(drafts[k].query).has(drafts[k].phrase)]
    phrases = [_ids(frame, drafts[k].phrase) for k in tried]
    scores = answer_scores(frame.model, [prompts[k] for k in tried], phrases, batch_tokens=batch_tokens(frame.model))
    return [k for k, ids, score in zip(tried, phrases, scores, strict=True) if score / len(ids) >= LIKELY]


def _ids(frame: Frame, text: str) -> tuple[int, ...]:
    return tuple(frame.model.tokenizer(text, add_special_tokens=False)["input_ids"])


def _common(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common beginning of all rows: the first and the last in alphabetical order differ as early as any two do."""
    first, last = min(rows), max(rows)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:n]


def greedy(frame: Frame, prompts: Sequence[tuple[int, ...]], new: Sequence[int]) -> list[tuple[int, ...]]:
    """The greedy answers to whole prompts, each of at most its number of new tokens. Their common beginning is read
    once."""
    if not prompts:
        return []
    shared = _common([prompt[:-1] for prompt in prompts])
    rest = [prompt[len(shared) :] for prompt in prompts]
    answers = sample(frame.model.model, shared, rest, new=max(new), temperature=0.0, seed=0, ends=frame.ended)
    return [answer[:most] for answer, most in zip(answers, new, strict=True)]
