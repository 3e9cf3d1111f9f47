"""Sampling continuations of many texts at once that all begin with the same tokens."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.running._advance import Fixed, Growing, fixed
from inweights.running._attention import no_cudnn_attention
from inweights.running._head import last_logits

# The cache is copied at every token, so a long context is sampled in smaller batches: bytes and texts at once.
AT_ONCE = {"cpu": (1 << 29, 64), "cuda": (24 << 30, 4096)}


@no_cudnn_attention()
def sample(
    net: nn.Module,
    shared: Sequence[int],
    texts: Sequence[Sequence[int]],
    *,
    new: int,
    temperature: float,
    seed: int,
    ends: Callable[[int], bool],
    batch: int | None = None,
    after: Callable[[int], None] = lambda _: None,
) -> list[tuple[int, ...]]:
    """The continuation of `shared` and each of `texts`: at most `new` tokens, the one that ends it included.

    `temperature` 0 is greedy. The shared tokens are read once. `after` is called with the number of finished texts.
    """
    device = next(net.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    tokens: list[tuple[int, ...]] = []
    order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), i))  # alike in length: little padding
    with torch.inference_mode():
        cache, each = _read(net, shared)
        room, most = AT_ONCE["cuda" if device.type == "cuda" else "cpu"]
        batch = max(1, min(batch or most, room // max(each, 1)))
        while len(tokens) < len(order):
            some = [texts[i] for i in order[len(tokens) : len(tokens) + batch]]
            if _windowed(net):  # a window counts padding, too: only texts of one length are batched together
                some = [t for t in some if len(t) == len(some[0])]
            tokens += _continued(net, cache, len(shared), some, new, temperature, generator, ends)
            after(len(tokens))
    back = dict(zip(order, tokens, strict=True))
    return [back[i] for i in range(len(texts))]


def _read(net: nn.Module, shared: Sequence[int]) -> tuple[Any, int]:
    """The cache after the shared tokens, and how many bytes it takes for each text."""
    if not shared:
        return None, 0
    ids = torch.tensor([list(shared)], device=next(net.parameters()).device)
    out = net(input_ids=ids, use_cache=True, **last_logits(net))
    cache: Any = getattr(out, "past_key_values", None)
    if not _held(cache):
        raise InputError("This model keeps no keys and values of what it has read, so it cannot be sampled in batches.")
    return cache, sum(t.nbytes for layer in cache.layers for t in (layer.keys, layer.values))


def _held(cache: Any) -> bool:
    """Whether a cache has keys and values in every layer; counters may lie beside them, but no other state."""
    layers = getattr(cache, "layers", None) or [None]
    held = [{k for k, v in vars(layer or object).items() if isinstance(v, Tensor) and v.ndim > 1} for layer in layers]
    return all(names == {"keys", "values"} for names in held)


def _windowed(net: nn.Module) -> bool:
    """Whether some layers attend to a sliding window only."""
    config: Any = net.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    kinds = getattr(text, "layer_types", None) or ()
    named = any(word in str(kind) for kind in kinds for word in ("sliding", "chunked", "local"))
    return named or (not kinds and bool(getattr(text, "sliding_window", None)))


def widened(cache: Any, rows: int) -> Any:
    """A cache of one text as that of several; keys and values are views, which the next token replaces."""
    if cache is None:
        return None
    wide = copy.copy(cache)
    wide.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in wide.layers:
        layer.keys, layer.values = (t.expand(rows, *t.shape[1:]) for t in (layer.keys, layer.values))
    return wide


def picked(cache: Any, rows: Tensor) -> Any:
    """A cache of several texts as that of some of them, in any order and number; `rows` are indices `(b,)`."""
    some = copy.copy(cache)
    some.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in some.layers:
        layer.keys, layer.values = (t[rows] for t in (layer.keys, layer.values))
    return some


def _continued(
    net: nn.Module,
    cache: Any,
    seen: int,
    texts: Sequence[Sequence[int]],
    new: int,
    temperature: float,
    generator: torch.Generator,
    ends: Callable[[int], bool],
) -> list[tuple[int, ...]]:
    rows, width = len(texts), max(map(len, texts))
    ids = torch.zeros(rows, width, dtype=torch.long)
    mask = torch.ones(rows, seen + width, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for r, text in enumerate(texts):  # padded on the left, so that all continue at the same position
        gap = width - len(text)
        ids[r, gap:] = torch.tensor(text)
        mask[r, seen : seen + gap] = 0
        positions[r, gap:] = seen + torch.arange(len(text))
    ids, mask, positions = (t.to(next(net.parameters()).device) for t in (ids, mask, positions))
    state: Growing | Fixed = Growing(net, widened(cache, rows), mask, positions)
    logits = state.read(ids)
    tokens: list[list[int]] = [[] for _ in texts]
    running = list(range(rows))  # the text of each row that is still computed
    open_ = set(running)
    for left in reversed(range(new)):
        if temperature:
            ids = torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=generator)
        else:
            ids = logits.argmax(-1, keepdim=True)
        for r, token in zip(running, ids.squeeze(-1).tolist(), strict=True):
            if r in open_:
                tokens[r].append(token)
                if ends(token):
                    open_.discard(r)
        if not open_ or not left:
            break
        # Not when sampling: there the tokens of one text depend on how many are drawn at once.
        if not temperature and len(open_) <= state.drop * len(running) and _held(state.cache):
            kept = [k for k, r in enumerate(running) if r in open_]
            running, at = [running[k] for k in kept], torch.tensor(kept, device=ids.device)
            ids = ids[at]
            state.keep(at)
        if isinstance(state, Growing) and not _windowed(net):
            state = fixed(state, left) or state
        logits = state.read(ids)
    return [tuple(s) for s in tokens]
