"""Study: questions about what a context says, written by the bare model from its pieces, until all of it is covered.

A question is kept only if the model answers it with a fact of the piece when it reads the piece, and does not without.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from inweights.folding._answers import contains
from inweights.folding._echo import THAT, clauses, echoes, stating, unframed
from inweights.folding._facts import Fact, facts_of
from inweights.folding._frame import Frame
from inweights.folding._grammar import is_verbal
from inweights.folding._pieces import Piece, pieces
from inweights.folding._teach import Draft, Reader, Studied, taught
from inweights.models import adds_bos
from inweights.running import sample

SHOWN = """\
Text: Visitors to the Fenn tower may not bring umbrellas.
About: the Fenn tower
Answer: umbrellas
Question: What are visitors not allowed to bring to the Fenn tower?

Text: The bridge over the Nar was designed by Ada Holt and has seven arches.
About: the bridge over the Nar
Answer: Ada Holt
Question: Who designed the bridge over the Nar?

Text: | Dish | Served with |
| Orla soup | rye bread |
About: Orla soup
Answer: rye bread
Question: What is served with Orla soup?

Text: The bridge over the Nar was designed by Ada Holt and has seven arches.
About: the bridge over the Nar
Answer: seven
Question: How many arches does the bridge over the Nar have?

"""
"""What a writer of questions goes on with: a model without turns needs no instructions to continue a list."""
REQUESTS = (
    'Write a question about this text whose answer is "{phrase}". Reply with the question only.',
    'Ask for "{phrase}" with a short question that can be understood without the text. Reply with the question only.',
    'Which question does "{phrase}" answer here? Use other words than the text. Reply with the question only.',
)
OPENERS = {
    "number": (
        "",
        "",
        "What",
        "How many",
        "How much",
        "When",
        "In which",
        "Which",
        "Can you tell me",
        "Please tell me",
    ),
    "name": ("", "", "Who", "What", "Which", "Where", "What is the name of", "Can you tell me", "Do you know"),
    "other": ("", "", "What", "Which", "What kind of", "How", "Where", "Can you tell me", "Do you know", "Tell me"),
}
"""Beginnings of questions, for variety: by what the answer is; empty for one of the model's own."""
CLOZE = ('Fill in the blank: "{text}"', 'What is missing here? "{text}"')
ABOUT = ("What do you know about {name}?", "Tell me about {name}.", "Who or what is {name}?")
PROBES = 32
TITLE = 6
"""Words of a piece up to which one without a clause or a number is a title, and states nothing."""
TRY, WRITES = 48, 0.15
"""Questions that the model writes first, and the share that must be of use for it to be asked for more."""


@dataclass(frozen=True)
class Study:
    """The questions that were kept, and how much of the context they cover.

    - `turn`: the turn of a chat in which the teacher was given what it read.
    - `written`, `dropped`: how many questions the model wrote, and why how many were not kept.
    """

    pieces: tuple[Piece, ...]
    facts: tuple[Fact, ...]
    questions: tuple[Studied, ...]
    turn: str = "system"
    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def asked(self) -> set[tuple[int, str]]:
        """The facts that some question asks for: the piece and the phrase."""
        return {(q.piece, q.phrase) for q in self.questions if q.phrase}

    @property
    def coverage(self) -> float:
        """The share of pieces that some question is about, of those that state something; 1 if there are none."""
        stating = [i for i, piece in enumerate(self.pieces) if not piece.directs]
        return len({q.piece for q in self.questions} & set(stating)) / len(stating) if stating else 1.0

    @property
    def named(self) -> float:
        """The share of facts that some question asks for."""
        return len(self.asked) / len(self.facts) if self.facts else 1.0


def study(
    frame: Frame,
    *,
    forms: int = 8,
    rounds: int = 3,
    seed: int = 0,
    avoid: Sequence[str] = (),
    after: Callable[[int, int], None] = lambda done, total: None,
    made: Callable[[Sequence[Draft | Studied]], None] = lambda some: None,
) -> Study:
    """Questions about the context of `frame`.

    **Arguments:**

    - `forms`: how many different questions are wanted for each fact.
    - `rounds`: how often the model is asked for those that are still missing.
    - `avoid`: questions that must not be studied, because they are for judging.
    - `made`: called with questions as they come: drafts when they are written, and then those that are kept.
    """
    rnd, parts = random.Random(seed), pieces(frame.context)
    known = [replace(fact, phrase=_object(parts[fact.piece], fact.phrase)) for fact in facts_of(frame, parts)]
    known = [fact for fact in known if _asked_for(parts[fact.piece], fact.phrase)]
    if not known:
        return Study(tuple(parts), (), ())
    reader = Reader(frame, _turn(frame, parts, known, random.Random(seed)))
    taken = {_plain(q) for q in avoid}
    apart = tuple(taken)
    kept: list[Studied] = []
    dropped: Counter[str] = Counter()
    count: Counter[tuple[int, str]] = Counter()
    written = wrote = 0
    for k in range(1 + rounds):
        missing = [f for f in known for _ in range(forms - count[f.piece, f.phrase])]
        if k == 0:  # a few for each fact that need no writer, and a try whether this model is one
            new = _constructed(parts, known, rnd)
            missing = rnd.sample(missing, min(TRY, len(missing)))
        elif not missing or wrote < WRITES * TRY:
            break
        else:
            new = []
        own = _written(frame, parts, missing, rnd)
        written, new = written + len(own), new + own
        new = [q for q in new if not _drop(q, parts, taken, apart, dropped)]
        made(new)
        right = taught(reader, parts, known, new)
        dropped["not answered from its piece"] += len(new) - len(right)
        kept += right
        made(right)
        count.update((q.piece, q.phrase) for q in right if not q.known)
        wrote += sum(not q.known and bool(q.phrase) for q in right)
        after(k + 1, 1 + rounds)
    return Study(tuple(parts), tuple(known), tuple(kept), reader.turn, written, dict(dropped))


def _asked_for(piece: Piece, phrase: str) -> bool:
    """Whether a phrase can be an answer: not the verb of a clause, not a title's only words, and not the label of what
    follows it (`berth` of `berth 7`, `length` of `length of 9 metres`)."""
    label = any(
        re.search(rf"(?<!\w){re.escape(phrase)} (?:of )?{re.escape(m)}(?!\w)", piece.body)
        for m in piece.marked
        if phrase not in piece.marked
    )
    title = len(piece.body.split()) <= TITLE and not any(c.isdigit() for c in piece.body) and not clauses(piece)[1]
    return not label and not title and not any(is_verbal(clause, phrase) for clause in clauses(piece)[1])


def _object(piece: Piece, phrase: str) -> str:
    """A phrase without the verb of its clause before it: of `carries timber`, only `timber` is asked for."""
    first, _, rest = phrase.partition(" ")
    return rest if rest and any(is_verbal(clause, first) for clause in clauses(piece)[1]) else phrase


def _turn(frame: Frame, parts: Sequence[Piece], known: Sequence[Fact], rnd: random.Random) -> str:
    """The turn of a chat in which this model reads better: with more of some blanks filled in as they should be."""
    if not frame.chat:
        return "system"
    blanks = [replace(d, answer="") for d in _constructed(parts, known, rnd) if d.answer]
    some = rnd.sample(blanks, min(PROBES, len(blanks)))
    return max(("system", "user"), key=lambda turn: len(taught(Reader(frame, turn), parts, known, some)))


def _written(frame: Frame, parts: Sequence[Piece], facts: Sequence[Fact], rnd: random.Random) -> list[Draft]:
    """One question for each fact, as the bare model writes it: half of them after a list, half on request."""
    tok = frame.model.tokenizer
    listed = [f for f in facts if not frame.chat or rnd.random() < 0.5]
    asked = [f for f in facts if frame.chat and rnd.random() < 0.5]
    start = (*((tok.bos_token_id,) if adds_bos(tok) else ()), *_ids(frame, SHOWN))
    results = []
    for some, shared in ((listed, start), (asked, frame.before)):
        openers = [rnd.choice(OPENERS[_kind(f, parts)]) for f in some]
        texts = []
        for fact, opener in zip(some, openers, strict=True):
            read, phrase = parts[fact.piece].reads, fact.phrase
            if some is listed:
                about = f"About: {_subject(parts[fact.piece], phrase)}\n"
                texts.append(_ids(frame, f"Text: {read}\n{about}Answer: {phrase}\nQuestion: {opener}".rstrip()))
            else:
                request = f"{read}\n\n{rnd.choice(REQUESTS).format(phrase=phrase)}"
                texts.append((*frame.asked(request), *_ids(frame, opener)))
        replies = _replies(frame, shared, texts, rnd.randrange(1 << 30)) if texts else []
        results += [
            Draft(" ".join((opener + reply).split("\n")[0].strip('" ').split()), fact.piece, fact.phrase)
            for fact, opener, reply in zip(some, openers, replies, strict=True)
        ]
    return results


def _replies(frame: Frame, shared: Sequence[int], texts: Sequence[tuple[int, ...]], seed: int) -> list[str]:
    tok = frame.model.tokenizer
    ends = cache(lambda t: t in frame.ends or not set("?\n").isdisjoint(tok.decode([t])))
    ids = sample(frame.model.model, shared, texts, new=28, temperature=0.8, seed=seed, ends=ends)
    return list(tok.batch_decode(ids, skip_special_tokens=True))


def _ids(frame: Frame, text: str) -> tuple[int, ...]:
    return tuple(frame.model.tokenizer(text, add_special_tokens=False)["input_ids"])


def _subject(piece: Piece, phrase: str) -> str:
    """Whom a question about a phrase should name: the first other name of the piece, or how it begins."""
    names = [m for m in piece.marked if m != phrase and not any(c.isdigit() for c in m)]
    return names[0] if names else " ".join(piece.body.split()[:3])


def _kind(fact: Fact, parts: Sequence[Piece]) -> str:
    if any(c.isdigit() for c in fact.phrase):
        return "number"
    return "name" if fact.phrase in parts[fact.piece].marked else "other"


def _constructed(parts: Sequence[Piece], facts: Sequence[Fact], rnd: random.Random) -> list[Draft]:
    """For each fact a blank and what its sentence gives; the cells of tables; and what is said about each name."""
    results: list[Draft] = []
    for fact in facts:
        word = rf"(?<!\w){re.escape(fact.phrase)}(?!\w)"
        blank = re.sub(word, "____", stating(parts[fact.piece], word), count=1)
        results.append(Draft(rnd.choice(CLOZE).format(text=blank), fact.piece, fact.phrase, fact.phrase))
        results += [
            Draft(query, fact.piece, fact.phrase, answer)
            for query, answer in echoes(parts[fact.piece], fact.phrase, rnd)
        ]
    for i, piece in enumerate(parts):
        results += [Draft(query, i, cell, cell) for query, cell in piece.cells]
        for name in () if piece.directs else piece.marked:
            if not any(c.isdigit() for c in name):
                answer = THAT.sub("", piece.body) if contains(clauses(piece)[0], name) else ""
                results.append(Draft(rnd.choice(ABOUT).format(name=name), i, "", answer[:1].upper() + answer[1:]))
    return results


def _drop(draft: Draft, parts: Sequence[Piece], taken: set[str], apart: tuple[str, ...], dropped: Counter[str]) -> bool:
    """Whether a question is no use: no question, known already, for judging, or names nothing of its piece.

    What is kept `apart` for judging may have a request after the question, such as to answer briefly.
    """
    query, piece = draft.query, parts[draft.piece]
    names = [m for m in piece.marked if draft.phrase and m != draft.phrase]
    why, alone = "", _plain(unframed(query))
    if not 3 <= len(query.split()) <= 80 or (draft.phrase and query[-1:] not in '?"'):
        why = "not a question"
    elif any(other.startswith(alone) for other in apart):
        why = "kept apart for judging"
    elif _plain(query) in taken:
        why = "asked already"
    elif not draft.answer and names and not any(contains(query, part) for n in names for part in (n, *n.split())):
        why = "names nothing of its piece"
    if why:
        dropped[why] += 1
    else:
        taken.add(_plain(query))
    return bool(why)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
