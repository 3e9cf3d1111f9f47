"""`fold`: a context becomes one adapter for all queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from inweights._errors import InputError
from inweights.folding._calibrate import answered, made_up, questions, read_queries
from inweights.folding._card import Card, seen
from inweights.folding._estimate import fold_memory, require_fold_memory
from inweights.folding._evaluate import Fidelity, fidelity_of
from inweights.folding._fidelity import ENOUGH
from inweights.folding._fold import Fold
from inweights.folding._frame import Frame
from inweights.folding._methods import RANK, solve_updates, working
from inweights.models import Model, as_model

Calibration = int | str | Path | Sequence[str]
After = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Made:
    """A fold with its report, and how long it took: the solve alone, and everything."""

    fold: Fold
    fidelity: Fidelity | None
    seconds_solve: float
    seconds_total: float


def fold(
    model: Model | nn.Module,
    context: str,
    *,
    calibration: Calibration | None = None,
    method: str = "match",
    rank: int | None = None,
    energy: float | None = None,
    seed: int = 0,
    chat: bool | None = None,
    tokenizer: Any = None,
    embed_prompt: bool = False,
) -> Fold:
    """One adapter for all queries, that stands for a context.

    **Arguments:**

    - `context`: the prompt to fold, a system turn in a chat.
    - `calibration`: how many queries the model generates itself (128, or 1,024 on a GPU), or the queries, or a
      file of them. Labels are never read.
    - `method`: `"match"` (the best), `"closed"` (no gradient), `"polish"`, `"distil"`, `"vector"`, `"mean"`.
    - `rank`: of each matrix' update; 16 for `match`, 64 for `closed`. `energy` cuts each further, to the lowest rank
      that keeps this share of its squared norm.
    - `tokenizer`: of a transformers model that was not loaded by `iw.load`.
    - `chat`: whether context and query are turns; by default, if the model has a chat template.
    - `embed_prompt`: keep the prompt's text, and not only its hash, in the adapter.

    Nothing is measured here: see `evaluate`, or the command `inweights fold`, which does both.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2")
    queries = ["Who are you?", "What is a cat?"]  # 128 of the model's own by default
    fold = iw.fold(m, "Answer in French.", calibration=queries, method="vector")  # "match" is better, but slower
    with fold.applied(m):
        pass  # the model's own forward with other weights; restored after the block, bit for bit
    print(fold.rank)
    # prints 1
    ```
    """
    return make(
        model, context, calibration=calibration, method=method, rank=rank, energy=energy, seed=seed, chat=chat,
        tokenizer=tokenizer, embed_prompt=embed_prompt, report=False,
    ).fold  # fmt: skip


def make(
    model: Model | nn.Module,
    context: str,
    *,
    calibration: Calibration | None = None,
    method: str = "match",
    rank: int | None = None,
    energy: float | None = None,
    strength: float = 1.0,
    seed: int = 0,
    chat: bool | None = None,
    tokenizer: Any = None,
    embed_prompt: bool = False,
    report: bool = True,
    held_out: int = 24,
    tests: Sequence[tuple[str, str]] = (),
    new: int = 48,
    after: After = lambda stage, done, total: None,
) -> Made:
    """Folds and, if `report`, measures on queries that were not calibrated on; `tests` have right answers."""
    start = time.perf_counter()
    model = as_model(model, tokenizer)
    frame = Frame.of(model, context, chat)
    low = working(model)
    quick = Frame.of(low, context, chat)
    queries, kept_out, source = _queries(quick, calibration, seed, held_out if report else 0, after)
    longest = max(len(frame.asked(query)) for query in queries)
    needed = fold_memory(
        low, context=len(frame.folded), queries=len(queries), query=longest, new=new, method=method,
        rank=RANK.get(method, 0) if rank is None else rank, report=report,
    )  # fmt: skip
    require_fold_memory(needed)
    examples = answered(quick, queries, seed + 1, new=new, after=lambda n: after("answers", n, len(queries)))
    solved = solve_updates(
        model, replace(examples, frame=frame), method, rank=rank, seed=seed, low=low,
        after=lambda done, total: after("solving", done, total),
    )  # fmt: skip
    card = Card(
        base=model.name, base_fingerprint=model.fingerprint, prompt_sha256=frame.digest,
        prompt=context if embed_prompt else None, prompt_tokens=len(frame.folded), chat=frame.chat, method=method,
        rank=max(u.columns for u in solved.updates.values()), seed=seed,
        calibration={
            "source": source, "queries": len(examples), "answer_tokens": examples.tokens, "seen": seen(queries),
        },
    )  # fmt: skip
    made = Fold(solved.updates, card, model) * strength
    if energy is not None:
        made = made.trimmed(energy)
    fidelity = None
    if report:
        fidelity = fidelity_of(frame, made, kept_out, answers=tests, new=new, seed=seed, after=lambda s: after(s, 0, 0))
        made = replace(made, card=replace(made.card, fidelity=fidelity.for_card()))
    return Made(made, fidelity, solved.seconds, time.perf_counter() - start)


def _queries(
    frame: Frame, calibration: Calibration | None, seed: int, held_out: int, after: After
) -> tuple[list[str], dict[str, Sequence[str]], str]:
    """The queries to calibrate on, those to measure on (by the name of their set), and where the former come from."""
    if calibration is None:
        calibration = 1024 if frame.model.device.type == "cuda" else 128
    by_hand = questions()[:: max(1, len(questions()) // held_out)][:held_out] if held_out and frame.chat else ()
    if isinstance(calibration, int):
        if calibration < 1:
            raise InputError(f"`calibration` is {calibration}, but must be at least 1 query.")
        after("queries", 0, calibration)
        asked = made_up(frame, calibration + held_out // 3, seed)
        sets: dict[str, Sequence[str]] = {"hand-written questions": by_hand, "made-up questions": asked[calibration:]}
        return asked[:calibration], {k: v for k, v in sets.items() if v}, "made up by the bare model"
    if isinstance(calibration, str | Path):
        given, source = [q for q, _ in read_queries(Path(calibration))], f"file {Path(calibration).name}"
    else:
        given, source = list(calibration), "given"
    given = list(dict.fromkeys(given))
    apart = given[::5][:held_out] if len(given) >= 5 else []
    asked = [q for q in given if q not in set(apart)]
    own: tuple[str, Sequence[str]] = ("queries held out", apart)
    hand: tuple[str, Sequence[str]] = ("hand-written questions", [q for q in by_hand if q not in set(given)])
    order = (own, hand) if len(apart) >= ENOUGH else (hand, own)
    return asked, {name: some for name, some in order if some}, source
