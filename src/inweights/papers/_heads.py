"""The attention heads of a language model of the Llama family: where they attend, what they add, and runs without them.

A head is `(layer, head)`. What a head adds to the residual stream is its slice of what the output matrix of its
attention reads, `o_proj`, multiplied by its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from inweights.models import Model
from inweights.running import hooked

Head = tuple[int, int]


def blocks(model: Model) -> list[Any]:
    """The blocks, each with `self_attn` and its norm."""
    return [model.model.get_submodule(name) for name in model.anatomy.names]


def shape(model: Model) -> tuple[int, int]:
    """The numbers of layers and of heads in each."""
    return len(model.anatomy.names), int(cast(Any, model.model).config.num_attention_heads)


def all_heads(model: Model) -> list[Head]:
    layers, heads = shape(model)
    return [(layer, head) for layer in range(layers) for head in range(heads)]


def top(scores: Tensor, count: int) -> list[Head]:
    """The heads of the largest scores `(layers, heads)`, the largest first."""
    return [divmod(i, scores.shape[1]) for i in scores.flatten().topk(count).indices.tolist()]


def others(model: Model, chosen: Iterable[Head], generator: torch.Generator, spared: Iterable[Head] = ()) -> list[Head]:
    """As many other heads as were chosen, drawn at random, in the same layers as far as there are as many; none of
    `spared`."""
    taken, drawn = {*chosen, *spared}, list[Head]()
    for layer, _ in chosen:
        free = [h for h in all_heads(model) if h not in taken]
        near = [h for h in free if h[0] == layer] or free
        drawn.append(near[int(torch.randint(len(near), (), generator=generator))])
        taken.add(drawn[-1])
    return drawn


@torch.no_grad()
def patterns(model: Model, tokens: Tensor) -> Tensor:
    """Attention weights, `(batch, layers, heads, n, n)`."""
    net = cast(Any, model.model)
    was = net.config._attn_implementation
    net.set_attn_implementation("eager")  # the other implementations do not form the weights
    try:
        measured = net(input_ids=tokens, use_cache=False, output_attentions=True, logits_to_keep=1).attentions
    finally:
        net.set_attn_implementation(was)
    return torch.stack(measured, 1)


@contextmanager
def changed_heads(model: Model, change: Callable[[int, Tensor], Tensor], layers: Iterable[int]) -> Iterator[None]:
    """While active, the heads of some layers read `change(layer, read)` in place of `read`, `(batch, n, heads, width)`,
    before their output matrix."""
    heads = shape(model)[1]

    def hook(layer: int) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            read = change(layer, args[0].unflatten(-1, (heads, -1)))
            return (read.flatten(-2), *args[1:]), kwargs

        return before

    every = blocks(model)
    with hooked(before=[(every[layer].self_attn.o_proj, hook(layer)) for layer in layers]):
        yield


@contextmanager
def without(model: Model, heads: Iterable[Head]) -> Iterator[None]:
    """While active, these heads add nothing."""
    off: dict[int, list[int]] = {}
    for layer, head in heads:
        off.setdefault(layer, []).append(head)

    def change(layer: int, read: Tensor) -> Tensor:
        return read.index_fill(2, torch.tensor(off[layer], device=read.device), 0.0)

    with changed_heads(model, change, off):
        yield


@torch.no_grad()
def through(model: Model, tokens: Tensor) -> Tensor:
    """What each head would add if it attended to one token alone: `(batch, layers, heads, n, width)`."""
    heads = shape(model)[1]
    streams: list[Tensor] = []
    every = blocks(model)

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        streams.append(out)

    with hooked(after=[(block.input_layernorm, note) for block in every]):
        cast(Any, model.model)(input_ids=tokens, use_cache=False, logits_to_keep=1)
    added = []
    for block, h in zip(every, streams, strict=True):
        out = block.self_attn.o_proj.weight.unflatten(1, (heads, -1))  # (width, heads, head width)
        v = block.self_attn.v_proj(h).unflatten(-1, (-1, out.shape[2]))
        v = v.repeat_interleave(heads // v.shape[2], 2)  # heads share values in groups
        added.append(torch.einsum("bnhd,whd->bhnw", v, out))
    return torch.stack(added, 1)
