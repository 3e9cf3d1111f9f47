"""Study: questions about what a context says, written by the bare model from its pieces, until all of it is covered.

A question is kept only if the model, given the piece, answers it with a phrase of the piece, and would not without.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inweights.folding._answers import contains
from inweights.folding._frame import Frame
from inweights.folding._pieces import Piece, pieces
from inweights.folding._teacher import answer_scores
from inweights.running import sample

REQUESTS = (
    'Write a question about this text whose answer is "{phrase}". Say whom it is about. Reply with the question.',
    'Which question about the text above is answered by "{phrase}"? Name the subject in it. Reply with one question.',
    'A reader without the text wants to learn "{phrase}". Write a short question for that, with the full name of its '
    "subject.",
)
OPENERS = (
    "What", "Which", "Who", "Where", "When", "How", "What is", "How many", "How much", "In which", "Can you tell me",
    "Do you know", "I would like to know", "Please tell me", "Tell me", "",
)  # fmt: skip
CLOZE = ('Fill in the blank: "{text}"', 'What is missing here? "{text}"')
ABOUT = ("What do you know about {name}?", "Tell me about {name}.", "Who or what is {name}?")
SHORT, LONG = 20, 48
"""New tokens of an answer that names a phrase, and of one that tells all."""
GAIN = 1.0
"""Nats by which the piece must raise the log-probability of its answer."""


@dataclass(frozen=True)
class Studied:
    """A question about a piece, and its answer by the model that reads the piece.

    - `query`, `answer`: the text, and the tokens of the answer.
    - `taught`: the tokens that the teacher read before the query: a piece, a window or the whole context.
    - `by`: which of these.
    - `phrase`: what the answer names; empty for a question about everything.
    """

    query: str
    answer: tuple[int, ...]
    taught: tuple[int, ...]
    by: str
    phrase: str
    piece: int


@dataclass(frozen=True)
class Study:
    """The questions that were kept, and how much of the context they cover."""

    pieces: tuple[Piece, ...]
    questions: tuple[Studied, ...]
    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def covered(self) -> set[tuple[int, str]]:
        """The pieces' phrases that some question asks for."""
        return {(q.piece, q.phrase) for q in self.questions if q.phrase}

    @property
    def facts(self) -> int:
        """How many phrases are asked for."""
        return len(self.covered)

    @property
    def coverage(self) -> float:
        """The share of pieces that some question is about; 1 for a context without pieces."""
        return len({q.piece for q in self.questions}) / len(self.pieces) if self.pieces else 1.0

    @property
    def named(self) -> float:
        """The share of names and numbers that some answer names."""
        wanted = [(i, m) for i, p in enumerate(self.pieces) for m in p.marked]
        asked: dict[int, list[str]] = {}
        for i, phrase in self.covered:
            asked.setdefault(i, []).append(phrase)
        return sum(any(contains(a, m) for a in asked.get(i, ())) for i, m in wanted) / len(wanted) if wanted else 1.0


def study(
    frame: Frame,
    *,
    forms: int = 8,
    rounds: int = 4,
    seed: int = 0,
    avoid: Sequence[str] = (),
    after: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Questions about the context of `frame`.

    **Arguments:**

    - `forms`: how many different questions are wanted for each phrase.
    - `rounds`: how often the model is asked for those that are still missing.
    - `avoid`: questions that must not be studied, because they are for judging.
    """
    rnd, parts = random.Random(seed), pieces(frame.context)
    taken = {_plain(q) for q in avoid}
    kept: list[Studied] = []
    dropped: Counter[str] = Counter()
    count: Counter[tuple[int, str]] = Counter()
    tried: Counter[tuple[int, str]] = Counter()
    written = 0
    for k in range(rounds):
        asks = [
            (i, phrase)
            for i, piece in enumerate(parts)
            for phrase in piece.phrases
            # A phrase that none of many questions was answered with states nothing.
            if count[i, phrase] < forms and not (tried[i, phrase] >= 2 * forms and not count[i, phrase])
        ]
        asks = [ask for ask in asks for _ in range(min(forms, forms - count[ask]) + (1 if k else 0))]
        if not asks:
            break
        new = _written(frame, parts, asks, rnd)
        written += len(new)
        tried.update(asks)
        if not k:
            new += _constructed(parts, rnd)
        new = [q for q in new if not _drop(q, parts, taken, dropped)]
        for q in _answered(frame, parts, new, dropped):
            kept.append(q)
            count[q.piece, q.phrase] += 1
        after(k + 1, rounds)
    return Study(tuple(parts), tuple(kept), written, dict(dropped))


Draft = tuple[str, int, str]
"""A question, the piece that it is about, and the phrase that it should be answered with."""


def _written(frame: Frame, parts: Sequence[Piece], asks: Sequence[tuple[int, str]], rnd: random.Random) -> list[Draft]:
    """One question for each piece and phrase, as the model writes it."""
    tok = frame.model.tokenizer
    openers = [rnd.choice(OPENERS) for _ in asks]
    texts = []
    for (i, phrase), opener in zip(asks, openers, strict=True):
        request = f"{parts[i].alone}\n\n{rnd.choice(REQUESTS).format(phrase=phrase)}"
        texts.append((*frame.asked(request), *tok(opener, add_special_tokens=False)["input_ids"]))
    replies = sample(
        frame.model.model, frame.before, texts, new=28, temperature=0.9, seed=rnd.randrange(1 << 30),
        ends=lambda t: t in frame.ends or not set("?\n").isdisjoint(tok.decode([t])),
    )  # fmt: skip
    results = []
    for (i, phrase), opener, ids in zip(asks, openers, replies, strict=True):
        text = opener + tok.decode(ids, skip_special_tokens=True)
        results.append((text.split("\n")[0].strip().strip('"').strip(), i, phrase))
    return results


def _constructed(parts: Sequence[Piece], rnd: random.Random) -> list[Draft]:
    """Blanks for each name and number, and what is said about each name."""
    results: list[Draft] = []
    for i, piece in enumerate(parts):
        for phrase in piece.phrases:
            blank = re.sub(rf"(?<!\w){re.escape(phrase)}(?!\w)", "____", piece.body, count=1)
            if blank != piece.body:
                results.append((rnd.choice(CLOZE).format(text=blank), i, phrase))
        for name in piece.marked:
            if not name[0].isdigit() and name[0] not in "£$€¥":
                results.append((rnd.choice(ABOUT).format(name=name), i, ""))
    return results


def _drop(draft: Draft, parts: Sequence[Piece], taken: set[str], dropped: Counter[str]) -> bool:
    """Whether a question is no use: no question, known already, gives its answer away, or names nothing."""
    query, i, phrase = draft
    words = query.split()
    names = [m for m in parts[i].marked if not contains(m, phrase) and not m[0].isdigit()] if phrase else []
    why = ""
    if not 3 <= len(words) <= 60 or (phrase and query[-1:] not in '?."'):
        why = "not a question"
    elif _plain(query) in taken:
        why = "asked already"
    elif phrase and contains(query, phrase):
        why = "gives its answer away"
    elif names and not any(contains(query, n) or any(contains(query, w) for w in n.split()) for n in names):
        why = "names nothing of its piece"
    if why:
        dropped[why] += 1
    else:
        taken.add(_plain(query))
    return bool(why)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _answered(
    frame: Frame,
    parts: Sequence[Piece],
    drafts: Sequence[Draft],
    dropped: Counter[str],
) -> list[Studied]:
    """The questions that a teacher answers with their phrase and the bare model does not, with the likeliest answer."""
    best: dict[int, tuple[float, Studied]] = {}
    bare = tuple(frame.asked(q) for q, _, _ in drafts)
    for by in ("alone", "window"):
        texts = [getattr(parts[i], by) for _, i, _ in drafts]
        differ = [k for k, t in enumerate(texts) if by == "alone" or t != parts[drafts[k][1]].alone]
        read = {t: Frame.of(frame.model, t, frame.chat).folded for t in {texts[k] for k in differ}}
        taught = [read[texts[k]] for k in differ]
        asked = [(*taught[n], *bare[k]) for n, k in enumerate(differ)]
        answers = _greedy(frame, asked, [LONG if not drafts[k][2] else SHORT for k in differ])
        told = answer_scores(frame.model, [(*frame.before, *a) for a in asked], answers)
        plain = answer_scores(frame.model, [(*frame.before, *bare[k]) for k in differ], answers)
        for n, k in enumerate(differ):
            query, i, phrase = drafts[k]
            text = frame.model.tokenizer.decode(answers[n], skip_special_tokens=True)
            right = contains(text, phrase) if phrase else any(contains(text, m) for m in parts[i].phrases)
            if not right or told[n] - plain[n] < GAIN:
                continue
            mean = told[n] / len(answers[n])
            if k not in best or mean > best[k][0]:
                best[k] = mean, Studied(query, answers[n], taught[n], by, phrase, i)
    dropped["not answered from its piece"] += len(drafts) - len(best)
    return [best[k][1] for k in sorted(best)]


def _greedy(frame: Frame, asked: Sequence[tuple[int, ...]], new: Sequence[int]) -> list[tuple[int, ...]]:
    """The greedy answers, each of at most its number of new tokens."""
    results: list[tuple[int, ...]] = [()] * len(asked)
    for most in sorted(set(new)):
        some = [k for k, n in enumerate(new) if n == most]
        answers = sample(
            frame.model.model, frame.before, [asked[k] for k in some], new=most, temperature=0.0, seed=0,
            ends=frame.ended,
        )  # fmt: skip
        for k, answer in zip(some, answers, strict=True):
            results[k] = answer
    return results
