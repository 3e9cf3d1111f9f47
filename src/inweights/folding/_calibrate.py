"""Calibration: queries of the model's own making, or the user's, and the prompted model's answers to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from inweights._errors import InputError
from inweights._read import LINES_LIMIT, MAX_LINES, parse_json_lines, read_text
from inweights.folding._examples import Examples
from inweights.folding._frame import Frame
from inweights.running import sample


@cache
def openers() -> tuple[str, ...]:
    """How users' turns begin: what the model is given to make up the rest."""
    return _lines("openers.txt")


@cache
def questions() -> tuple[str, ...]:
    """Hand-written questions, of another source than what the model makes up: for judging a fold, not for making it."""
    return _lines("questions.txt")


def _lines(name: str) -> tuple[str, ...]:
    return tuple((files("inweights.folding") / name).read_text(encoding="utf-8").split("\n"))[:-1]


def made_up(frame: Frame, count: int, seed: int = 0, *, new: int = 24, temperature: float = 0.8) -> list[str]:
    """Queries that the bare model makes up itself, as a user would begin them; no data is needed. All different."""
    if not frame.around[0]:
        raise InputError("Plain text has no turn that a query could be made up for: give a file (--calibration FILE).")
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
    """Queries from a file: JSON lines with `query` and perhaps `answer`, or plain lines of text. `what` begins the
    sentence of a refusal."""
    text = read_text(path, what, limit=LINES_LIMIT)
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise InputError(f"{what} {str(path)!r} holds no queries: write one a line.")
    if len(lines) > MAX_LINES:
        raise InputError(f"{what} {str(path)!r} holds {len(lines)} queries, above {MAX_LINES}: name a smaller file.")
    if not lines[0].lstrip().startswith("{"):
        return [(line, None) for line in lines]
    results = []
    for number, row in parse_json_lines(text, f"{what} {str(path)!r}"):
        query, answer = row.get("query"), row.get("answer")
        texts = [query] if answer is None else [query, answer]
        if not all(isinstance(t, str) and t.strip() for t in texts):
            raise InputError(
                f"Line {number} of {what} {str(path)!r} is no JSON object with a `query` of text, and an `answer` of "
                "text if there is one."
            )
        results.append((str(query), answer))
    return results


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
