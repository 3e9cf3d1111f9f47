"""Questions that follow from a sentence itself: its clauses with a question word in place of a fact.

They need no model that writes well: "The Nar bridge was designed by Ada Holt and has seven arches." gives, among
others, "The Nar bridge was designed by what?" and "Which one has seven arches?".
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from inweights.folding._pieces import ROW, Piece

CLAUSE = re.compile(r",\s*(?:and\s+|but\s+)?|\s+and\s+|;\s*")
LINK = re.compile(r"^(?:which|who|that|also|it|he|she|they)\s+", re.IGNORECASE)
FRAMES = ("{echo}?", "Complete the sentence: {cut} ...", "Question about {subject}: {echo}?", "I forgot: {echo}?")


def clauses(piece: Piece) -> tuple[str, list[str]]:
    """The subject of a sentence, with its article, and what the sentence says of it, clause by clause.

    Empty for what is no sentence about something with a name.
    """
    body = piece.body.strip().rstrip(".!")
    names = [m for m in piece.marked if not any(c.isdigit() for c in m)]
    if not names or "\n" in body or ROW.match(body):
        return "", []
    spot = re.search(rf"(?:\b(?:the|a|an)\s+(?:\w+\s+)?)?{re.escape(names[0])}(?!\w)", body, re.IGNORECASE)
    if spot is None or spot.start() > len(body) // 2:
        return "", []
    rest = body[spot.end() :].lstrip(", ")
    parts = [LINK.sub("", part).strip() for part in CLAUSE.split(rest)]
    subject = spot.group()
    return subject[0].upper() + subject[1:], [part for part in parts if len(part.split()) > 1]


def echoes(piece: Piece, phrase: str, rnd: random.Random) -> Iterator[tuple[str, str]]:
    """Questions for a phrase of a sentence, each with its answer: the phrase alone, or the clause as a sentence."""
    subject, parts = clauses(piece)
    if not subject:
        return
    word = rf"(?<!\w){re.escape(phrase)}(?!\w)"
    for part in parts:
        full = f"{subject} {part}"
        if re.search(word, part):
            asked = "what" if not any(c.isdigit() for c in phrase) else rnd.choice(("what", "how many", "which number"))
            echo, cut = re.sub(word, asked, full, count=1), re.split(word, full, maxsplit=1)[0].strip()
            for i, frame in enumerate(rnd.sample(FRAMES, 3)):
                yield frame.format(echo=echo, cut=cut, subject=subject), phrase if i == 0 else f"{full}."
    if re.search(word, subject) and parts:
        part = rnd.choice(parts)
        yield f"Which one {part}?", f"{subject}."
        yield f"Who or what {part}?", f"{subject} {part}."
