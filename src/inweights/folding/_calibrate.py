"""Calibration: queries of the model's own making, or the user's, and the prompted model's answers to them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights._read import LINES_LIMIT, MAX_LINES, inside, parse_json_array, parse_json_lines, read_text
from inweights.folding._examples import Examples
from inweights.folding._frame import Frame
from inweights.running import sample


@cache
def openers() -> tuple[str, ...]:
    """Beginnings of users' turns, which the model continues."""
    return _lines("openers.txt")


@cache
def questions() -> tuple[str, ...]:
    """Hand-written questions, from another source than generated ones: for measuring a fold, not for fitting it."""
    return _lines("questions.txt")


def _lines(name: str) -> tuple[str, ...]:
    return tuple((files("inweights.folding") / name).read_text(encoding="utf-8").split("\n"))[:-1]


def made_up(frame: Frame, count: int, seed: int = 0, *, new: int = 24, temperature: float = 0.8) -> list[str]:
    """Queries that the bare model generates from beginnings of users' turns; no data is needed. All different."""
    if not frame.around[0]:
        raise InputError(
            "The model can make up queries only for a chat, where they are user turns, and this fold is of plain text: "
            "give a file of queries (--calibration FILE)."
        )
    rnd = random.Random(seed)
    tok = frame.model.tokenizer
    results: dict[str, None] = {}
    known = set(questions())  # these are for judging
    idle = 0
    while len(results) < count:
        had = len(results)
        words = [rnd.choice(openers()) for _ in range(count - len(results))]
        answers = sample(
            frame.model.model, frame.before, [frame.opened(w) for w in words],
            new=new, temperature=temperature, seed=rnd.randrange(1 << 30),
            ends=lambda i: i in frame.ends or not set("?\n").isdisjoint(tok.decode([i])),
        )  # fmt: skip
        for opener, ids in zip(words, answers, strict=True):
            text = tok.decode([i for i in ids if i not in frame.ends], skip_special_tokens=True)
            query = (opener + text).split("\n")[0].strip()
            if len(query) > len(opener) and query not in known:
                results[query] = None
        idle = idle + 1 if len(results) == had else 0
        if idle == 5:
            raise InputError(
                f"The model made up only {had} different queries of {count}: give a file of them (--calibration FILE)."
            )
    return list(results)


def read_queries(path: Path, what: str = "The file of queries") -> list[tuple[str, str | None]]:
    """Queries, each with its answer if there is one, from a file in one of three forms: plain lines of text; JSON
    lines with `query` and perhaps `answer`; a JSON array of such objects, or of texts. `what` begins the sentence of a
    refusal."""
    text, named = read_text(path, what, limit=LINES_LIMIT), f"{what} {str(path)!r}"
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise InputError(f"{named} holds no queries: write one a line.")
    if re.match(r'\s*\[\s*["{\]]', text):
        rows = [(f"Entry {i} of {inside(named)}", row) for i, row in enumerate(parse_json_array(text, named), 1)]
        if not rows:
            raise InputError(f"{named} holds an empty JSON array: write queries into it.")
        return [(row, None) if isinstance(row, str) and row.strip() else _query(row, at) for at, row in rows]
    if len(lines) > MAX_LINES:
        raise InputError(f"{named} holds {len(lines)} queries, above {MAX_LINES}: name a smaller file.")
    if not lines[0].lstrip().startswith("{"):
        return [(line, None) for line in lines]
    return [_query(row, f"Line {number} of {inside(named)}") for number, row in parse_json_lines(text, named)]


def _query(row: Any, at: str) -> tuple[str, str | None]:
    """The query and perhaps the answer of a JSON object; `at` names its place."""
    query, answer = (row.get("query"), row.get("answer")) if isinstance(row, dict) else (None, None)
    texts = [query] if answer is None else [query, answer]
    if not all(isinstance(t, str) and t.strip() for t in texts):
        raise InputError(
            f"{at} is no JSON object with a `query` of text, and an `answer` of text if there is one, such as "
            '{"query": "When do you open?", "answer": "9:30"}.'
        )
    return str(query), answer


def answered(
    frame: Frame,
    queries: Sequence[str],
    seed: int = 0,
    *,
    new: int = 48,
    temperature: float = 1.0,
    after: Callable[[int], None] = lambda _: None,
) -> Examples:
    """The queries with the answers that the *prompted* model gives: sampled, or greedy at temperature 0.

    Plain text ends with its line; a turn of a chat ends with its end token.
    """
    if not queries:
        raise InputError("There are no queries to fold for.")
    asked = [frame.asked(q) for q in queries]
    if not all(asked):
        raise InputError("One of the queries is empty: there is nothing to answer.")
    longest = len(frame.before) + len(frame.folded) + max(map(len, asked)) + new
    if longest > frame.model.window:
        raise InputError(
            f"Context, longest query and {new} answer tokens are {longest} tokens, "
            f"but the model reads {frame.model.window}."
        )
    answers = sample(
        frame.model.model, [*frame.before, *frame.folded], asked,
        new=new, temperature=temperature, seed=seed, after=after,
        ends=frame.ended,
    )  # fmt: skip
    return Examples(frame, tuple(queries), tuple(asked), tuple(answers))
