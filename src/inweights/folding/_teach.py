"""Teach: the answers to studied questions, by the model that reads the piece, its window or the whole context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inweights.folding._answers import contains
from inweights.folding._frame import Frame
from inweights.folding._methods import batch_tokens
from inweights.folding._pieces import Piece, marked
from inweights.folding._teacher import answer_scores
from inweights.running import sample

SHORT, LONG = 20, 48
"""New tokens of an answer that names a phrase, and of one that tells all."""
GAIN = 1.0
"""Nats by which reading must raise the log-probability of the answer."""
WHOLE = 512
"""Tokens of a context that is read in full beside the pieces."""


@dataclass(frozen=True)
class Draft:
    """A question about a piece, and the phrase that it should be answered with; empty for all that the piece says."""

    query: str
    piece: int
    phrase: str


@dataclass(frozen=True)
class Studied:
    """A question about a piece, with the answer of a model that reads it.

    - `answer`: its tokens.
    - `taught`: all tokens that the teacher read before the answer.
    - `by`: what it read: `"piece"`, `"window"` or `"context"`, and in which turn.
    """

    query: str
    piece: int
    phrase: str
    answer: tuple[int, ...]
    taught: tuple[int, ...]
    by: str


def reading(frame: Frame, text: str, query: str, turn: str) -> tuple[int, ...]:
    """The tokens of a query to a model that is given a text in the system's turn or in the user's."""
    if turn == "system":
        return (*frame.before, *Frame.of(frame.model, text, frame.chat).folded, *frame.asked(query))
    return (*frame.before, *frame.asked(f"{text}\n\n{query}"))


def taught(frame: Frame, parts: Sequence[Piece], drafts: Sequence[Draft]) -> list[Studied]:
    """The questions that some teacher answers as it should, each with the likeliest of such answers.

    As it should: with the phrase, with no name or number that does not stand in the context or the question, and
    `GAIN` nats likelier than the bare model would.
    """
    best: dict[int, tuple[float, Studied]] = {}
    sources = {"piece": [p.alone for p in parts], "window": [p.window for p in parts]}
    if len(frame.folded) <= WHOLE:
        sources["context"] = [frame.context] * len(parts)
    for by, texts in sources.items():
        for turn in ("user", "system"):
            known = sources["piece"] if by != "piece" else [""] * len(parts)
            some = [k for k, d in enumerate(drafts) if texts[d.piece] != known[d.piece]]
            prompts = [reading(frame, texts[drafts[k].piece], drafts[k].query, turn) for k in some]
            new = [LONG if not drafts[k].phrase else SHORT for k in some]
            for k, prompt, answer, mean in _good(frame, parts, [drafts[k] for k in some], some, prompts, new):
                if k not in best or mean > best[k][0]:
                    d = drafts[k]
                    best[k] = mean, Studied(d.query, d.piece, d.phrase, answer, prompt, f"{by}, {turn} turn")
    return [best[k][1] for k in sorted(best)]


def _good(
    frame: Frame,
    parts: Sequence[Piece],
    drafts: Sequence[Draft],
    ids: Sequence[int],
    prompts: Sequence[tuple[int, ...]],
    new: Sequence[int],
) -> list[tuple[int, tuple[int, ...], tuple[int, ...], float]]:
    """Which drafts are answered as they should be: index, prompt, answer and mean log-probability of its tokens."""
    answers, size = greedy(frame, prompts, new), batch_tokens(frame.model)
    given = answer_scores(frame.model, prompts, answers, size)
    bare = answer_scores(frame.model, [(*frame.before, *frame.asked(d.query)) for d in drafts], answers, size)
    results = []
    for d, k, prompt, answer, score, without in zip(drafts, ids, prompts, answers, given, bare, strict=True):
        text = frame.model.tokenizer.decode(answer, skip_special_tokens=True)
        named = contains(text, d.phrase) if d.phrase else any(contains(text, p) for p in parts[d.piece].phrases)
        true = all(contains(frame.context, m) or contains(d.query, m) for m in marked(text))
        if named and true and score - without >= GAIN:
            results.append((k, prompt, answer, score / len(answer)))
    return results


def greedy(frame: Frame, prompts: Sequence[tuple[int, ...]], new: Sequence[int]) -> list[tuple[int, ...]]:
    """The greedy answers to whole prompts, each of at most its number of new tokens."""
    results: list[tuple[int, ...]] = [()] * len(prompts)
    for most in sorted(set(new)):
        some = [k for k, n in enumerate(new) if n == most]
        answers = sample(
            frame.model.model, (), [prompts[k] for k in some], new=most, temperature=0.0, seed=0, ends=frame.ended
        )
        for k, answer in zip(some, answers, strict=True):
            results[k] = answer
    return results
