"""Conversations: the same queries in the first, second and third turn, to measure whether a fold still works there."""

from __future__ import annotations

from collections.abc import Sequence

from inweights.folding._examples import Examples
from inweights.folding._frame import Frame
from inweights.running import sample

TURNS = 3
CONVERSATIONS = 8
NEW = 24
"""Answer tokens of a turn: enough to compare, and few enough for a report on a CPU."""


def conversations(frame: Frame, queries: Sequence[str], seed: int = 0) -> list[Examples]:
    """For each turn the queries that are asked in it, behind the turns before it, and the prompted model's answers.

    The queries are distributed over at most `CONVERSATIONS` conversations of `TURNS` turns. Prompted, bare and folded
    model read the same earlier turns, with the prompted model's answers in them. Empty for plain text, for fewer
    queries than turns, and where the template or the model's window does not allow it.
    """
    count = min(CONVERSATIONS, len(queries) // TURNS)
    history: list[tuple[tuple[str, str], ...]] = [()] * count
    results: list[Examples] = []
    for turn in range(TURNS if frame.chat and count else 0):
        now = tuple(queries[turn * count : (turn + 1) * count])
        asked = tuple(frame.asked_after(before, q) for before, q in zip(history, now, strict=True))
        longest = len(frame.before) + len(frame.folded) + max(map(len, asked)) + NEW
        if not all(asked) or longest > frame.model.window:
            break
        prompt = [*frame.before, *frame.folded]
        answers = sample(frame.model.model, prompt, asked, new=NEW, temperature=0.0, seed=seed, ends=frame.ended)
        results.append(Examples(frame, now, asked, tuple(answers)))
        texts = frame.model.tokenizer.batch_decode(answers, skip_special_tokens=True)
        history = [(*h, (q, t.strip())) for h, q, t in zip(history, now, texts, strict=True)]
    return results
