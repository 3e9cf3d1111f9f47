"""What a prompt costs at every request, and so what a fold saves: tokens, memory for keys and values, reading time."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from inweights.folding._frame import Frame
from inweights.running import last_logits


@dataclass(frozen=True)
class Savings:
    """For one request: tokens that need not be sent, bytes of keys and values, and seconds to the first token."""

    tokens: int
    kv_bytes: int
    seconds_prompted: float
    seconds_bare: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def savings(frame: Frame, query: str, tokens: int | None = None, rounds: int = 3) -> Savings:
    """Measured by reading a query with and without the context, in turns; `tokens` assumes another length of it."""
    folded = list(frame.folded)
    if tokens is not None:
        folded = (folded * (1 + tokens // len(folded)))[:tokens]
    asked = list(frame.asked(query))
    before = list(frame.before)
    taken: dict[bool, list[float]] = {True: [], False: []}
    kv = 0
    for _ in range(rounds):
        for with_context in taken:
            ids = [*before, *(folded if with_context else []), *asked]
            start = time.perf_counter()
            cache = _read(frame, ids)
            taken[with_context].append(time.perf_counter() - start)
            if with_context:
                kv = sum(t.nbytes for t in _tensors(cache)) * len(folded) // len(ids)
    return Savings(len(folded), kv, statistics.median(taken[True]), statistics.median(taken[False]))


def _read(frame: Frame, ids: list[int]) -> Any:
    net: Any = frame.model.model
    with torch.no_grad():
        out = net(input_ids=torch.tensor([ids], device=frame.model.device), use_cache=True, **last_logits(net))
        out.logits[0, -1].argmax().item()  # waits for a GPU
    return out.past_key_values


def _tensors(cache: Any) -> list[Tensor]:
    layers = getattr(cache, "layers", [])
    return [
        t for layer in layers for t in (getattr(layer, "keys", None), getattr(layer, "values", None)) if t is not None
    ]
