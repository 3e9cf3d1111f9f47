"""Next-token distributions of many texts: batched, with what they share computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from inweights.compare._shots import Shots
from inweights.models import Model
from inweights.running import at_head, full_precision, pick, picked, shared_cache, takes_positions

Forward = Callable[..., Any]
"""A forward of the model, with its own weights or with others: `forward(input_ids=..., ...)`."""


class Room(NamedTuple):
    """What goes into one batch: at most `most` tokens, padding included; the longest text at most `stretch` times as
    long as the shortest; from `enough` tokens on, which are worth a pass over the weights, no longer texts; and at most
    `held` tokens with those of the prefixes, whose keys and values are copied for each text."""

    most: int
    enough: int
    stretch: float
    held: int = 1 << 16


ROOM = {"cpu": Room(1024, 256, 9 / 8), "cuda": Room(1 << 14, 1 << 12, 2.0, 1 << 17)}
"""On a GPU launching kernels is what takes time, and padding costs little."""


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
    prefixes: Sequence[Sequence[int]] = (),
    after: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """The log-probabilities of the token after each text, on the CPU in at least float32: `(texts, vocabulary)`, or
    with prefixes `(prefixes · texts, vocabulary)`, all texts after the first prefix first.

    **Arguments:**

    - `forward`: runs the model with other weights, by default its own. Prefixes need the model's own.
    - `prefixes`: what each text is read after, of one length. Each is read once for all texts; where the model's cache
      cannot be shared, with each text.
    - `after`: called with the number of rows done.
    """
    device = next(net.parameters()).device
    cache, past = None, 0
    with full_precision(net):
        if prefixes:
            cache, why = shared_cache(net, torch.tensor([list(prefix) for prefix in prefixes], device=device))
            past = 0 if why else len(prefixes[0])
        owners = [k for k in range(max(1, len(prefixes))) for _ in texts]
        rows = [text for _ in range(max(1, len(prefixes))) for text in texts]
        if prefixes and not past:
            rows = [[*prefixes[k], *text] for k, text in zip(owners, rows, strict=True)]
        result, done = None, 0
        room = ROOM["cuda" if device.type == "cuda" else "cpu"]
        for some in batches([len(row) for row in rows], room, past):
            held = None if cache is None else picked(cache, torch.tensor([owners[i] for i in some], device=device))
            part = _rows(net, forward or net, [rows[i] for i in some], held, past)
            result = part.new_empty(len(rows), part.shape[-1]) if result is None else result
            result[some] = part
            done += len(some)
            after(done)
    assert result is not None
    return result


def batches(lengths: Sequence[int], room: Room, past: int = 0) -> list[list[int]]:
    """Indices of texts, in groups of about the same length; each is read after `past` tokens of a prefix.

    The same query after several orders has the same length, so that most groups have no padding.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    groups: list[list[int]] = []
    for i in order:
        group = groups[-1] if groups else []
        first, last = (lengths[group[0]], lengths[group[-1]]) if group else (0, 0)
        alike = lengths[i] == last or (last * len(group) < room.enough and lengths[i] <= room.stretch * first)
        rows = len(group) + 1
        if group and alike and lengths[i] * rows <= room.most and (past + lengths[i]) * rows <= room.held:
            group.append(i)
        else:
            groups.append([i])
    return groups


def _rows(net: nn.Module, forward: Forward, texts: Sequence[Sequence[int]], cache: Any, past: int) -> Tensor:
    ids, lengths = padded(texts, next(net.parameters()).device)
    extra: dict[str, Any] = {"attention_mask": ids.new_ones(len(ids), past + ids.shape[1])}
    if takes_positions(net):
        extra["position_ids"] = torch.arange(past, past + ids.shape[1], device=ids.device).expand(len(ids), -1)
    if cache is not None:
        extra["past_key_values"] = cache
    last = (lengths - 1).unsqueeze(-1)
    with at_head(net, lambda h: pick(h, last)):
        logits: Tensor = forward(input_ids=ids, use_cache=cache is not None, **extra).logits[:, 0]
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return precise.log_softmax(-1).cpu()


def counted_on(after: Callable[[int], None], done: int) -> Callable[[int], None]:
    """`after`, called with what is done beyond `done`."""
    return lambda more: after(done + more)


def begin_alike(texts: Sequence[Sequence[int]]) -> int:
    """How many tokens all texts begin with; each keeps at least one of its own."""
    most = min(map(len, texts)) - 1
    return next((k for k in range(most) if len({text[k] for text in texts}) > 1), most)


def in_context(
    model: Model,
    shown: Shots,
    orders: Tensor,
    *,
    after: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """In-context learning: the log-probabilities after the demonstrations in each order and each query,
    `(orders, queries, vocabulary)`. Each order's demonstrations are read once for all queries, with the tokens that all
    queries begin with, and a query is read after several orders in one batch."""
    common = begin_alike(shown.queries)
    prefixes = [(*shown.prefix(order), *shown.queries[0][:common]) for order in orders.tolist()]
    rows = next_tokens(model.model, [query[common:] for query in shown.queries], prefixes=prefixes, after=after)
    return rows.view(len(prefixes), len(shown.queries), -1)


def zero_shot(
    model: Model, shown: Shots, forward: Forward | None = None, after: Callable[[int], None] = lambda _: None
) -> Tensor:
    """The log-probabilities after each query without demonstrations, `(queries, vocabulary)`."""
    texts = [(*shown.before, *query) for query in shown.queries]
    return next_tokens(model.model, texts, forward=forward, after=after)
