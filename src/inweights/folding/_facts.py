"""The facts of a context: phrases that the bare model does not predict, with their surprisal."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inweights.folding._answers import contains
from inweights.folding._frame import Frame
from inweights.folding._pieces import Piece
from inweights.models import Model
from inweights.running import signature

SURPRISE = 2.0
"""Nats above which a phrase is a fact. In repetitive texts, what all entries have in common is predicted."""
CHUNK = 2048


@dataclass(frozen=True)
class Fact:
    """A phrase of a piece, and its surprisal: −log p of its tokens after all that stands before it, in nats."""

    piece: int
    phrase: str
    surprisal: float


def facts_of(frame: Frame, parts: Sequence[Piece]) -> list[Fact]:
    """The phrases that the bare model does not predict from the text before them; none of pieces that only direct."""
    bodies = [part.body for part in parts]
    starts, text = [], ""
    for body in bodies:
        starts.append(len(text))
        text += body + "\n"
    surprise = surprisals(frame.model, text)
    begins, ends = [begin for _, begin, _ in surprise], [end for _, _, end in surprise]
    results = []
    for i, part in enumerate(parts):
        for phrase in () if part.directs else part.phrases:
            # A question asks for a name or number by itself, without the words around it.
            if phrase not in part.marked and any(contains(phrase, m) for m in part.marked):
                continue
            spot = re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", bodies[i])
            if spot is None:
                continue
            first, last = starts[i] + spot.start(), starts[i] + spot.end()
            there = surprise[bisect_right(ends, first) : bisect_left(begins, last)]
            total = sum(s for s, _, _ in there)
            if total >= SURPRISE:
                results.append(Fact(i, phrase, total))
    return results


def surprisals(model: Model, text: str) -> list[tuple[float, int, int]]:
    """For each token of a text: −log p after the tokens before it, and where it begins and ends in the text.

    Texts longer than `CHUNK` tokens are read in chunks, each after the half of the one before it.
    """
    tok: Any = model.tokenizer
    coded = tok(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = coded["input_ids"], coded["offset_mapping"]
    results: list[tuple[float, int, int]] = [(0.0, *offsets[0])] if ids else []
    keep = {"logits_to_keep": 0} if "logits_to_keep" in signature(model.model) else {}
    for first in range(0, max(len(ids) - 1, 0), CHUNK // 2):
        begin = max(0, first - CHUNK // 2)
        some = torch.tensor([ids[begin : first + CHUNK // 2 + 1]], device=model.device)
        with torch.inference_mode():
            logits = model.model(input_ids=some[:, :-1], use_cache=False, **keep).logits[0, first - begin :].float()
        logp = logits.log_softmax(-1).gather(-1, some[0, first - begin + 1 :, None]).squeeze(-1)
        for k, value in enumerate(logp.tolist()):
            results.append((-value, *offsets[first + 1 + k]))
    return results
