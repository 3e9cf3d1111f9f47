"""The prompted pass: the model's hidden states on the answers with the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from inweights.folding._examples import Examples
from inweights.models import Model
from inweights.running import at_head, block_outputs, last_logits, no_cudnn_attention, pick, vocabulary, widened


@dataclass(frozen=True)
class Teacher:
    """The prompted model's hidden states where the next token is an answer's.

    - `last`: the inputs of its head, `(n, R, d)` for `n` examples of at most `R` answer tokens.
    - `blocks`: the outputs of its blocks, `(n, R, blocks, d)`; empty if not requested.
    """

    last: Tensor
    blocks: Tensor


@no_cudnn_attention()
def prompted(model: Model, examples: Examples, *, blocks: bool = False, batch_tokens: int = 1024) -> Teacher:
    """One pass over all examples, each after the text of its teacher.

    A context that many share is read once, and its keys and values are shared.
    """
    net = model.model
    last: Tensor | None = None
    inner = torch.empty(0, device=model.device)
    with torch.no_grad():
        for chosen, rows, forward in _passes(model, examples, batch_tokens):
            seen: list[Tensor] = []

            def take(h: Tensor, rows: Tensor = rows, seen: list[Tensor] = seen) -> Tensor:
                seen.append(pick(h, rows))
                return h[:, :1]  # the logits themselves are not wanted

            def keep(h: Tensor, rows: Tensor = rows) -> Tensor:
                return pick(h, rows) if blocks else h[:0]

            with block_outputs(net, model.anatomy.names, keep) as outputs, at_head(net, take):
                forward()
            if last is None:
                last = seen[0].new_zeros(len(examples), *seen[0].shape[1:])
                if blocks:
                    inner = last.new_zeros(*last.shape[:2], len(outputs), last.shape[-1])
            last[chosen] = seen[0]
            if blocks:
                inner[chosen] = torch.stack(outputs, 2)
    assert last is not None
    return Teacher(last, inner)


def _passes(
    model: Model, examples: Examples, batch_tokens: int
) -> Iterator[tuple[list[int], Tensor, Callable[[], Any]]]:
    """Batches of examples: which they are, the rows of their answers `(b, R)`, and the forward that reads them."""
    frame, net = examples.frame, model.model
    index, _ = (t.to(model.device) for t in examples.answer_rows())
    shared = [i for i in range(len(examples)) if examples.prompt_of(i) is None]
    own = [i for i in range(len(examples)) if examples.prompt_of(i) is not None]
    if shared:
        prefix = [*frame.before, *frame.folded]
        start: Any = net(input_ids=torch.tensor([prefix], device=model.device), use_cache=True, **last_logits(net))
        for chosen, batch in examples.batches(batch_tokens, shared):
            ids = batch.ids[:, len(frame.before) :].to(model.device)
            rows = (index[chosen] - len(frame.before)).clamp_min(0)
            cache = widened(start.past_key_values, len(chosen))
            yield chosen, rows, partial(_forward, net, ids, cache, len(prefix))
    for chosen, batch in examples.batches(batch_tokens, own, taught=True):
        more = [len(examples.prompt_of(i) or ()) - len(frame.before) - len(examples.asked[i]) for i in chosen]
        rows = index[chosen] + torch.tensor(more, device=model.device).unsqueeze(1)
        yield chosen, rows.clamp_min(0), partial(net, input_ids=batch.ids, use_cache=False)


SCORED = 1 << 28
"""Logits that are computed at once to score answers: those of 32,768 tokens would take tens of gigabytes."""


@no_cudnn_attention()
def answer_scores(
    model: Model,
    asked: Sequence[tuple[int, ...]],
    answers: Sequence[tuple[int, ...]],
    shared: Sequence[int] = (),
    *,
    batch_tokens: int = 1024,
) -> list[float]:
    """The log-probability of each answer after `shared` and what is asked: a sum over its tokens."""
    results, net = [0.0] * len(asked), model.model
    order = sorted(range(len(asked)), key=lambda i: len(asked[i]) + len(answers[i]))
    start: Any = None
    with torch.inference_mode():
        if shared:
            ids = torch.tensor([list(shared)], device=model.device)
            start = net(input_ids=ids, use_cache=True, **last_logits(net)).past_key_values
        while order:
            width = len(asked[order[-1]]) + len(answers[order[-1]])
            count = max(1, batch_tokens // (width + len(shared)))
            most = max(len(answers[i]) for i in order[-count:])
            count = max(1, min(count, SCORED // (most * vocabulary(net))))
            some, order = order[-count:], order[:-count]
            ids, rows, targets, there = (t.to(model.device) for t in _rows(some, asked, answers))
            seen: list[Tensor] = []

            def take(h: Tensor, rows: Tensor = rows, seen: list[Tensor] = seen) -> Tensor:
                seen.append(pick(h, rows))
                return seen[-1]

            with at_head(net, take):
                if shared:
                    logits = _forward(net, ids, widened(start, len(some)), len(shared)).logits
                else:
                    logits = net(input_ids=ids, use_cache=False).logits
            chosen = logits.float().log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            for i, value in zip(some, (chosen * there).sum(1).tolist(), strict=True):
                results[i] = value
    return results


def _rows(
    some: Sequence[int], asked: Sequence[tuple[int, ...]], answers: Sequence[tuple[int, ...]]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Padded tokens `(b, T)`; of the answers `(b, R)`: the rows before them, the tokens, and 1 where there is one."""
    T, R = max(len(asked[i]) + len(answers[i]) for i in some), max(len(answers[i]) for i in some)
    ids = torch.zeros(len(some), T, dtype=torch.long)
    rows, targets, there = (torch.zeros(len(some), R, dtype=torch.long) for _ in range(3))
    for r, i in enumerate(some):
        n, first = len(answers[i]), len(asked[i]) - 1
        ids[r, : first + 1 + n] = torch.tensor([*asked[i], *answers[i]])
        rows[r, :n], targets[r, :n], there[r, :n] = torch.arange(first, first + n), torch.tensor(answers[i]), 1
    return ids, rows, targets, there


def _forward(net: Any, ids: Tensor, cache: Any, seen: int) -> Any:
    b, T = ids.shape
    positions = torch.arange(seen, seen + T, device=ids.device).expand(b, -1)
    mask = torch.ones(b, seen + T, dtype=torch.long, device=ids.device)
    return net(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
