"""Plain text that a fold shall not change: the bare model's own, with the bare model as teacher."""

from __future__ import annotations

import random
import re
from typing import Any

from inweights.folding._calibrate import openers
from inweights.folding._examples import Examples
from inweights.folding._frame import Frame
from inweights.running import sample

STARTS = ("The", "In", "It was", "A", "When", "He", "She said", "To", "We", "This", "There", "If", "def ", "I")
"""How a third of the texts begin; another third begins as questions do, and the last with any word."""
PARTS, NEW = 4, 24
"""Each text gives so many examples of so many tokens, of which a later one is read with all tokens before it: a change
can grow with the length of a text."""
TEMPERATURE = 0.8
"""Of the texts: at 1, those of a small model soon resemble nothing that people write."""
LEAST_NEW = 8
"""Tokens of an example, at least: the last one of a text that ends may be short."""


def general(frame: Frame, count: int, seed: int, new: int = NEW) -> Examples:
    """About `count` examples: parts of plain texts that the bare model makes up, without turns."""
    rnd = random.Random(seed)
    starts = _starts(frame.model.tokenizer, -(-count // PARTS), rnd)
    asked = [tuple(frame.model.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in starts]
    texts = sample(
        frame.model.model, frame.before, asked, new=PARTS * new, temperature=TEMPERATURE, seed=seed,
        ends=lambda t: t in frame.ends,
    )  # fmt: skip
    queries, ahead, answers = [], [], []
    for start, first, text in zip(starts, asked, texts, strict=True):
        for at in range(0, len(text), new):
            part = text[at : at + new]
            if not at or len(part) >= min(new, LEAST_NEW):
                queries.append(start)
                ahead.append((*first, *text[:at]))
                answers.append(part)
    taught = tuple((*frame.before, *some) for some in ahead)
    return Examples(frame, tuple(queries), tuple(ahead), tuple(answers), taught)


def _starts(tokenizer: Any, count: int, rnd: random.Random) -> list[str]:
    words = sorted(w for w in map(str.strip, _decoded(tokenizer)) if re.fullmatch(r"[A-Za-z]{4,}", w))
    kinds = (STARTS, openers(), words or STARTS)
    return [rnd.choice(kinds[i % 3]) for i in range(count)]


def _decoded(tokenizer: Any) -> list[str]:
    """Every token as text."""
    return list(tokenizer.batch_decode([[i] for i in range(len(tokenizer))]))
