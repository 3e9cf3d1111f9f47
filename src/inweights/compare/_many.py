"""Many demonstrations: gradient descent on up to 512 of them, and its gap between training and test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from inweights.compare._descent import descend
from inweights.compare._measures import accuracy
from inweights.compare._predict import next_tokens, zero_shot
from inweights.compare._shots import Shots
from inweights.compare._ways import Way
from inweights.models import Model

SIZES = (0, 1, 2, 4, 8)
"""Demonstrations of in-context learning."""
COUNTS = (8, 32, 128, 512)
"""Demonstrations of gradient descent."""
BATCH = 8


def first(shown: Shots, count: int) -> Shots:
    """The same queries with the first demonstrations alone."""
    return replace(shown, asked=shown.asked[:count], answered=shown.answered[:count])


def most_that_fit(model: Model, shown: Shots) -> int:
    """How many demonstrations fit into the model's window before the longest query."""
    left = model.window - len(shown.before) - max(map(len, shown.queries))
    count = 0
    for question, answer in zip(shown.asked, shown.answered, strict=True):
        left -= len(question) + len(answer) + len(shown.ended)
        if left < 0:
            break
        count += 1
    return max(1, count)


def trained_on(
    model: Model,
    shown: Shots,
    rates: Sequence[float],
    epochs: int,
    *,
    every: int = 1,
    checked: int = 64,
    after: Callable[[int], None] = lambda _: None,
) -> list[dict[str, float]]:
    """Adam on all demonstrations in batches of 8: for each rate, each `every` epochs, the accuracy over labels on the
    queries, and on the demonstrations themselves (at most `checked`): their difference is the gap of overfitting."""
    kind = Way("many", "Adam in batches", optimiser="adam", batch=min(BATCH, len(shown)))
    results = []
    learnt = [(*shown.before, *question) for question in shown.asked[:checked]]
    right = shown.right.new_tensor([answer[0] for answer in shown.answered[:checked]])
    for rate in rates:
        for point in descend(model, shown, kind, rate, epochs=epochs, every=every, after=after):
            test = accuracy(zero_shot(model, shown, point.descent.forward), shown.right, shown.labels)
            own = next_tokens(model.model, learnt, forward=point.descent.forward)
            train = accuracy(own, right, shown.labels)
            results.append({
                "rate": rate, "epoch": point.epoch, "test": float(test.mean()), "train": float(train.mean()),
            })  # fmt: skip
    return results
