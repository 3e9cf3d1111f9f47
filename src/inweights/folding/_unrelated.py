"""Side effects of a fold: plain text that is not related to the prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from inweights.folding._frame import Frame
from inweights.folding._methods import batch_tokens
from inweights.folding._teacher import answer_scores
from inweights.models import Model, adds_bos
from inweights.running import last_logits

TEXTS = (
    "The kettle had been on the stove since early morning, and by noon the kitchen windows were grey with steam. "
    "Nobody noticed, because the whole family was in the orchard picking the last of the plums before the storm.",
    "Granite forms when molten rock cools slowly far below the surface. The slower it cools, the larger its crystals "
    "grow, which is why the stone in old mountain ranges glitters when the overlying layers have been worn away.",
    "To replace the filter, switch the machine off at the wall, wait until the red light goes out, and turn the cap "
    "to the left. Rinse the new filter under cold water for a minute before you put it in.",
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n",
    "The committee met on the third of March and approved the minutes of its last meeting. Two members asked for a "
    "vote on the new timetable; it was put off until the figures for the winter are known.",
)


@dataclass(frozen=True)
class SideEffects:
    """How much the next-token distribution moves on text that has no turn and no question.

    - `kl_folded`: KL(base ‖ folded) a token; `kl_prompted`: KL(base ‖ base with the prompt in front), the effect of
      the prompt itself on the same text: that of a fold should not be larger.
    - `perplexity_base`, `perplexity_folded`: on that text.
    """

    kl_folded: float
    kl_prompted: float
    perplexity_base: float
    perplexity_folded: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def side_effects(frame: Frame, changed: AbstractContextManager[Any]) -> SideEffects:
    """Base, folded and prompted model on the same plain text."""
    tok = frame.model.tokenizer
    room = max(2, frame.model.window - len(frame.folded))
    texts = [[*frame.before, *tok(text, add_special_tokens=False)["input_ids"]][:room] for text in TEXTS]
    base = [_logs(frame, ids, 0) for ids in texts]
    with_prompt = [
        _logs(frame, [*ids[: len(frame.before)], *frame.folded, *ids[len(frame.before) :]], len(frame.folded))
        for ids in texts
    ]
    with changed:
        folded = [_logs(frame, ids, 0) for ids in texts]
    return SideEffects(_kl(base, folded), _kl(base, with_prompt), _perplexity(base, texts), _perplexity(folded, texts))


def perplexity(model: Model, texts: Sequence[str]) -> float:
    """Of all tokens of the texts but the first of each, as plain text."""
    tok = model.tokenizer
    start = (tok.bos_token_id,) if adds_bos(tok) else ()
    ids = [(*start, *tok(text, add_special_tokens=False)["input_ids"]) for text in texts]
    rest = [some[1:] for some in ids]
    scores = answer_scores(model, [some[:1] for some in ids], rest, batch_tokens=batch_tokens(model))
    return math.exp(-sum(scores) / sum(map(len, rest)))


def _logs(frame: Frame, ids: list[int], skip: int) -> Tensor:
    """Log-probabilities of every next token but the first, `(n − 1, vocabulary)`; `skip` leaves the prompt out."""
    net: Any = frame.model.model
    count = len(ids) - skip
    with torch.no_grad():
        given = torch.tensor([ids], device=frame.model.device)
        logits = net(input_ids=given, use_cache=False, **last_logits(net, count)).logits
    return logits[0, -count:].float().log_softmax(-1).cpu()


def _kl(ours: list[Tensor], theirs: list[Tensor]) -> float:
    results = [(a.exp() * (a - b)).sum(-1) for a, b in zip(ours, theirs, strict=True)]
    return float(torch.cat(results).mean())


def _perplexity(logs: list[Tensor], texts: list[list[int]]) -> float:
    outputs = [lp[:-1].gather(-1, torch.tensor(ids[1:]).unsqueeze(-1)) for lp, ids in zip(logs, texts, strict=True)]
    return float((-torch.cat(outputs).mean()).exp())
