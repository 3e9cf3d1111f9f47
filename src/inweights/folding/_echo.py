"""Questions that follow from a sentence itself: clause by clause, by grammar, or with a question word for a fact.

No model is needed: "The Nar bridge was designed by Ada Holt and has seven arches." gives, among
others, "How many arches does the Nar bridge have?", "The Nar bridge was designed by what?" and "Which one has seven
arches?".
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import takewhile

from inweights.folding._grammar import asking, predicate, split_subject
from inweights.folding._pieces import ROW, Piece

CLAUSE = re.compile(r",\s*(?:and\s+|but\s+)?|\s+and\s+|;\s*")
LINK = re.compile(r"^(?:which|who|that|also|it|he|she|they)\s+", re.IGNORECASE)
RELATIVE = re.compile(r"(?:who|whose|which|that|where)\s", re.IGNORECASE)
THAT = re.compile(r"^(?:please\s+)?(?:note|remember|observe|know)\s+that\s+", re.IGNORECASE)
"""Openings of a sentence that state nothing."""
ASKED = ("Tell me: {query}", "I would like to know: {query}", "A question: {query}", "Please help me. {query}")
"""Openings before a natural question."""
FRAMES = ("{echo}?", "Complete the sentence: {cut} ...", "Question about {subject}: {echo}?", "I forgot: {echo}?")


def clauses(piece: Piece) -> tuple[str, list[str]]:
    """The subject of a sentence and what the sentence states of it, clause by clause.

    The subject ends with the first name, if a verb follows it, or before the first verb. Empty where there is neither.
    A relative clause belongs to the subject only if it stands right behind it; elsewhere it states something of another
    word ("You may bring the trailer, which carries 25 kg"), as may what follows it, and both are left out.
    """
    body = THAT.sub("", piece.body.strip().rstrip(".!"))
    if not body or "\n" in body or ROW.match(body):
        return "", []
    names = [m for m in piece.marked if not any(c.isdigit() for c in m)]
    spot = re.search(rf"{re.escape(names[0])}(?!\w)", body) if names else None
    subject, rest = split_subject(body)
    subject = re.sub(r",?\s+(?:who|which|that)$", "", subject)
    if spot and spot.start() <= len(body) // 2:
        behind = LINK.sub("", body[spot.end() :].lstrip(", "))
        if predicate(behind) or not subject:
            subject, rest = body[: spot.end()], behind
    plural = subject.endswith("s") and not subject.endswith("'s")
    first, *more = CLAUSE.split(rest)
    parts = [LINK.sub("", part).strip() for part in (first, *takewhile(lambda p: not RELATIVE.match(p), more))]
    parts = [part for part in parts if len(part.split()) > 1 and predicate(part, plural)]
    return (subject[0].upper() + subject[1:], parts) if subject and parts else ("", [])


def unframed(query: str) -> str:
    """A question without the words of `ASKED` before it."""
    starts = [frame.removesuffix("{query}") for frame in ASKED]
    return next((query.removeprefix(start) for start in starts if query.startswith(start)), query)


def stating(piece: Piece, word: str) -> str:
    """The shortest sentence of a piece with a match of `word`: the first clause that has one, or all it states."""
    subject, parts = clauses(piece)
    return next((f"{subject} {part}." for part in parts if re.search(word, f"{subject} {part}")), piece.body)


def echoes(piece: Piece, phrase: str, rnd: random.Random) -> Iterator[tuple[str, str]]:
    """Questions for a phrase of a sentence, each with the clause as the sentence that answers it.

    Not the phrase alone: a model answers in sentences by default, and an answer that begins in another way than its
    own would not be generated.
    """
    subject, parts = clauses(piece)
    if not subject:
        return
    word = rf"(?<!\w){re.escape(phrase)}(?!\w)"
    for part in parts:
        full = f"{subject} {part}"
        if re.search(word, part):
            natural = asking(subject, part, phrase)
            echo, cut = re.sub(word, "what", full, count=1), re.split(word, full, maxsplit=1)[0].strip()
            frames = rnd.sample(FRAMES, 1 if natural else 3)
            again = [rnd.choice(ASKED).format(query=rnd.choice(natural))] if natural else []
            made = (frame.format(echo=echo, cut=cut, subject=subject) for frame in frames)
            for query in (*natural, *again, *made):
                yield query, f"{full}."
    if re.search(word, subject) and parts:
        part = rnd.choice(parts)
        yield f"Which one {part}?", f"{subject} {part}."
        yield f"Who or what {part}?", f"{subject} {part}."
