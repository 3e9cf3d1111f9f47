"""Next-token distributions of many texts: batched, with what they share computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from inweights.compare._shots import Shots
from inweights.models import Model
from inweights.running import at_head, full_precision, pick, shared_cache, takes_positions, widened

Forward = Callable[..., Any]
"""A forward of the model, with its own weights or with others: `forward(input_ids=..., ...)`."""
TOKENS = {"cpu": 1024, "cuda": 1 << 16}
"""Tokens of one batch."""


def padded(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Texts as one tensor `(texts, longest)`, padded on the right, and their lengths `(texts,)`.

    No mask is needed: a causal model does not see what stands behind the token that is read.
    """
    width = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in texts], device=device)
    return ids, torch.tensor([len(text) for text in texts], device=device)


@torch.no_grad()
def next_tokens(
    net: nn.Module,
    texts: Sequence[Sequence[int]],
    *,
    forward: Forward | None = None,
    prefix: Sequence[int] = (),
    after: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """The log-probabilities of the token after each text, `(texts, vocabulary)`, on the CPU in at least float32.

    **Arguments:**

    - `forward`: runs the model with other weights, by default its own. A `prefix` needs the model's own.
    - `prefix`: tokens before every text, read once; where the model's cache cannot be shared, with each text.
    - `after`: called with the number of texts done.
    """
    device = next(net.parameters()).device
    cache, past = None, 0
    with full_precision(net):
        if prefix:
            cache, why = shared_cache(net, torch.tensor([list(prefix)], device=device))
            past = 0 if why else len(prefix)
            if why:
                texts = [[*prefix, *text] for text in texts]
        most = TOKENS["cuda" if device.type == "cuda" else "cpu"]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # alike in length: little padding
        parts: list[Tensor] = []
        done = 0
        while done < len(order):
            end = done + 1
            while end < len(order) and len(texts[order[end]]) * (end + 1 - done) <= most:
                end += 1
            parts.append(_rows(net, forward or net, [texts[i] for i in order[done:end]], cache, past))
            done = end
            after(done)
    return torch.cat(parts)[torch.tensor(order).argsort()]


def _rows(net: nn.Module, forward: Forward, texts: Sequence[Sequence[int]], cache: Any, past: int) -> Tensor:
    ids, lengths = padded(texts, next(net.parameters()).device)
    extra: dict[str, Any] = {"attention_mask": ids.new_ones(len(ids), past + ids.shape[1])}
    if takes_positions(net):
        extra["position_ids"] = torch.arange(past, past + ids.shape[1], device=ids.device).expand(len(ids), -1)
    if cache is not None:
        extra["past_key_values"] = widened(cache, len(ids))
    last = (lengths - 1).unsqueeze(-1)
    with at_head(net, lambda h: pick(h, last)):
        logits: Tensor = forward(input_ids=ids, use_cache=cache is not None, **extra).logits[:, 0]
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return precise.log_softmax(-1).cpu()


def counted_on(after: Callable[[int], None], done: int) -> Callable[[int], None]:
    """`after`, called with what is done beyond `done`."""
    return lambda more: after(done + more)


def in_context(
    model: Model,
    shown: Shots,
    orders: Tensor,
    *,
    after: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """In-context learning: the log-probabilities after the demonstrations in each order and each query,
    `(orders, queries, vocabulary)`. Each order's demonstrations are read once for all queries."""
    each = len(shown.queries)
    answers = []
    for k, order in enumerate(orders.tolist()):
        answers.append(
            next_tokens(model.model, shown.queries, prefix=shown.prefix(order), after=counted_on(after, k * each))
        )
    return torch.stack(answers)


def zero_shot(
    model: Model, shown: Shots, forward: Forward | None = None, after: Callable[[int], None] = lambda _: None
) -> Tensor:
    """The log-probabilities after each query without demonstrations, `(queries, vocabulary)`."""
    texts = [(*shown.before, *query) for query in shown.queries]
    return next_tokens(model.model, texts, forward=forward, after=after)
