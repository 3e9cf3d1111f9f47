"""The rival of folding a document: context distillation in as much time, on generic queries or on our own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from inweights.folding import DISTILLED, Card, Fold, Frame, answered, made_up, solve_updates, working
from inweights.models import Model

QUERIES = {"cuda": 256, "cpu": 24}
BATCH = {"cuda": 32, "cpu": 8}


def distilled(model: Model, text: str, queries: Sequence[str], seconds: float) -> tuple[Fold, float]:
    """A fold by context distillation on the model's own answers with the whole text in its prompt, and its seconds.

    It takes as many steps as fit into `seconds`. Without `queries`, generic ones that the model makes up.
    """
    low, kind = working(model), model.device.type
    frame = Frame.of(low, text)
    chosen = list(dict.fromkeys(queries)) or made_up(frame, QUERIES[kind])
    examples = replace(answered(frame, chosen, 1), frame=Frame.of(model, text))
    start = time.perf_counter()
    solve_updates(model, examples, "distil", low=low, steps=replace(DISTILLED, count=4, batch=BATCH[kind]))
    each = (time.perf_counter() - start) / 4
    steps = replace(DISTILLED, count=max(8, round(seconds / each)), batch=BATCH[kind])
    start = time.perf_counter()
    solved = solve_updates(model, examples, "distil", low=low, steps=steps)
    return Fold(solved.updates, Card(method="distil"), model), time.perf_counter() - start
