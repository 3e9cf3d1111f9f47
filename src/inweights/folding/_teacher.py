"""The prompted pass: what the model makes of the answers with the context in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inweights.folding._examples import Examples
from inweights.models import Model
from inweights.running import at_head, block_outputs, last_logits, pick, widened


@dataclass(frozen=True)
class Teacher:
    """The prompted model's hidden states where the next token is an answer's.

    - `last`: what its head is given, `(n, R, d)` for `n` examples of at most `R` answer tokens.
    - `blocks`: what its blocks say, `(n, R, blocks, d)`; empty if not asked for.
    """

    last: Tensor
    blocks: Tensor


def prompted(model: Model, examples: Examples, *, blocks: bool = False, batch_tokens: int = 1024) -> Teacher:
    """One pass over all examples. The context is read once, and its keys and values are shared."""
    frame, net = examples.frame, model.model
    shared = [*frame.before, *frame.folded]
    index, _ = examples.answer_rows()
    index = (index - len(frame.before)).clamp_min(0).to(model.device)
    last: Tensor | None = None
    inner = torch.empty(0, device=model.device)
    with torch.no_grad():
        start: Any = net(input_ids=torch.tensor([shared], device=model.device), use_cache=True, **last_logits(net))
        for chosen, batch in examples.batches(batch_tokens):
            ids = batch.ids[:, len(frame.before) :].to(model.device)
            rows = index[chosen]
            seen: list[Tensor] = []

            def take(h: Tensor, rows: Tensor = rows, seen: list[Tensor] = seen) -> Tensor:
                seen.append(pick(h, rows))
                return h[:, :1]  # the logits themselves are not wanted

            def keep(h: Tensor, rows: Tensor = rows) -> Tensor:
                return pick(h, rows) if blocks else h[:0]

            with block_outputs(net, model.anatomy.names, keep) as outputs, at_head(net, take):
                _forward(net, ids, widened(start.past_key_values, len(chosen)), len(shared))
            if last is None:
                last = seen[0].new_zeros(len(examples), *seen[0].shape[1:])
                if blocks:
                    inner = last.new_zeros(*last.shape[:2], len(outputs), last.shape[-1])
            last[chosen] = seen[0]
            if blocks:
                inner[chosen] = torch.stack(outputs, 2)
    assert last is not None
    return Teacher(last, inner)


def _forward(net: Any, ids: Tensor, cache: Any, seen: int) -> None:
    b, T = ids.shape
    positions = torch.arange(seen, seen + T, device=ids.device).expand(b, -1)
    mask = torch.ones(b, seen + T, dtype=torch.long, device=ids.device)
    net(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
