"""The updates that replace the demonstrations by the theorem: the exact patch, and the fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from inweights.compare._predict import zero_shot
from inweights.compare._shots import Shots
from inweights.folding import fold
from inweights.models import Model, Prompt, patch
from inweights.running import full_precision


def patched(
    model: Model, shown: Shots, order: Sequence[int], count: int, after: Callable[[int], None] = lambda _: None
) -> Tensor:
    """The log-probabilities after the first `count` queries, each with its own exact patch for the demonstrations in an
    order and without reading them, `(count, vocabulary)`."""
    context, rows = list(shown.prefix(order)), []
    for k, query in enumerate(shown.queries[:count]):
        prompt = Prompt(model, context, list(query))
        change = patch(prompt, "static")
        with change.applied(model) as net, torch.no_grad(), full_precision(net):
            logits = net(**prompt.reduced_inputs, use_cache=False).logits[0, -1]
        rows.append((logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1).cpu())
        after(k + 1)
    return torch.stack(rows)


def folded(model: Model, shown: Shots, order: Sequence[int], calibration: Sequence[str], seed: int = 0) -> Tensor:
    """The log-probabilities after all queries with one fold of the demonstrations, `(queries, vocabulary)`.

    `calibration` are other questions of the task, without answers: what a fold is fitted on.
    """
    texts = [f"{question} {answer}\n\n" for question, answer in shown.texts]
    made = fold(model, "".join(texts[i] for i in order), calibration=list(calibration), seed=seed, chat=False)
    with made.applied(model):
        return zero_shot(model, shown)
