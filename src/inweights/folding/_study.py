"""Study: questions about what a context says, written by the bare model from its pieces, until all of it is covered.

A question is kept only if the model, given the piece, answers it with a phrase of the piece, and would not without.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from inweights.folding._answers import contains
from inweights.folding._frame import Frame
from inweights.folding._pieces import Piece, pieces
from inweights.folding._teach import Draft, Studied, taught
from inweights.models import adds_bos
from inweights.running import sample

SHOWN = """\
Text: The bridge over the Nar was designed by Ada Holt and has seven arches.
Answer: seven
Question: How many arches does the bridge over the Nar have?

Text: The bridge over the Nar was designed by Ada Holt and has seven arches.
Answer: Ada Holt
Question: Who designed the bridge over the Nar?

Text: | Dish | Served with |
| Orla soup | rye bread |
Answer: rye bread
Question: What is served with Orla soup?

Text: Visitors to the Fenn tower may not bring umbrellas.
Answer: umbrellas
Question: Can you tell me what visitors are not allowed to bring to the Fenn tower?

Text: The third act of "Low Tide" takes place in a lighthouse.
Answer: Low Tide
Question: Which play has a third act that is set in a lighthouse?

"""
"""What the writer of questions goes on with: a model needs no instructions to continue a list."""
OPENERS = (
    "What", "Which", "Who", "Where", "When", "How", "What is", "How many", "How much", "In which", "Can you tell me",
    "Do you know", "I would like to know", "Please tell me", "Tell me", "",
)  # fmt: skip
CLOZE = ('Fill in the blank: "{text}"', 'What is missing here? "{text}"')
ABOUT = ("What do you know about {name}?", "Tell me about {name}.", "Who or what is {name}?")


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
        right = taught(frame, parts, new)
        dropped["not answered from its piece"] += len(new) - len(right)
        kept += right
        count.update((q.piece, q.phrase) for q in right)
        after(k + 1, rounds)
    return Study(tuple(parts), tuple(kept), written, dict(dropped))


def _written(frame: Frame, parts: Sequence[Piece], asks: Sequence[tuple[int, str]], rnd: random.Random) -> list[Draft]:
    """One question for each piece and phrase, as the bare model continues a list of such questions."""
    tok = frame.model.tokenizer
    start = ([tok.bos_token_id] if adds_bos(tok) else []) + tok(SHOWN, add_special_tokens=False)["input_ids"]
    openers = [rnd.choice(OPENERS) for _ in asks]
    texts = [
        tok(f"Text: {parts[i].alone}\nAnswer: {phrase}\nQuestion: {opener}".rstrip(), add_special_tokens=False)[
            "input_ids"
        ]
        for (i, phrase), opener in zip(asks, openers, strict=True)
    ]
    replies = sample(
        frame.model.model, start, texts, new=28, temperature=0.9, seed=rnd.randrange(1 << 30),
        ends=cache(lambda t: t in frame.ends or not set("?\n").isdisjoint(tok.decode([t]))),
    )  # fmt: skip
    results = []
    for (i, phrase), opener, ids in zip(asks, openers, replies, strict=True):
        text = opener + tok.decode(ids, skip_special_tokens=True)
        results.append(Draft(" ".join(text.split("\n")[0].split()), i, phrase))
    return results


def _constructed(parts: Sequence[Piece], rnd: random.Random) -> list[Draft]:
    """Blanks for each name and number, and what is said about each name."""
    results: list[Draft] = []
    for i, piece in enumerate(parts):
        for phrase in piece.phrases:
            blank = re.sub(rf"(?<!\w){re.escape(phrase)}(?!\w)", "____", piece.body, count=1)
            if blank != piece.body:
                results.append(Draft(rnd.choice(CLOZE).format(text=blank), i, phrase))
        for name in piece.marked:
            if not name[0].isdigit() and name[0] not in "£$€¥":
                results.append(Draft(rnd.choice(ABOUT).format(name=name), i, ""))
    return results


def _drop(draft: Draft, parts: Sequence[Piece], taken: set[str], dropped: Counter[str]) -> bool:
    """Whether a question is no use: no question, known already, gives its answer away, or names nothing."""
    query, i, phrase = draft.query, draft.piece, draft.phrase
    words = query.split()
    names = [m for m in parts[i].marked if not contains(m, phrase) and not m[0].isdigit()] if phrase else []
    why = ""
    if not 3 <= len(words) <= 60 or (phrase and query[-1:] not in '?"'):
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
