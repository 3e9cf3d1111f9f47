"""Vectors at the last token of a prompt: read from some prompts, put into others. For task and function vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.compare import Shots, tokenised
from inweights.data import pairs, source
from inweights.ledger import NotHereError
from inweights.models import Model
from inweights.running import (
    at_head,
    block_outputs,
    full_precision,
    hidden,
    hooked,
    pick,
    picked,
    shared_cache,
    with_hidden,
)

Text = Sequence[int]


def words(model: Model, name: str, demonstrations: int, queries: int, seed: int) -> Shots:
    """Demonstrations and queries of a data set of words."""
    try:
        return tokenised(model.tokenizer, source(name), pairs(name), demonstrations, queries, seed)
    except InputError as error:  # the data set is not there
        raise NotHereError(str(error)) from error


def question(shown: Shots, query: int) -> str:
    """The word that a query asks about."""
    return shown.texts[len(shown) + query][0].split(": ", 1)[1].rsplit("\n", 1)[0]


class Past(NamedTuple):
    """What a model keeps of a prefix of texts, and its length."""

    cache: Any
    length: int


def read(model: Model, prefix: Text) -> Past:
    """Reads a prefix once for all texts that follow it."""
    with full_precision(model.model):
        cache, why = shared_cache(model.model, torch.tensor([list(prefix)]))
    if why:
        raise InputError(f"The prefix of texts cannot be shared: {why}.")
    return Past(cache, len(prefix))


@torch.no_grad()
def run_last(model: Model, texts: Sequence[Text], past: Past | None = None) -> Tensor:
    """The logits after each text, `(texts, vocabulary)`; with `past`, all follow one prefix.

    Texts are padded on the right: a causal model does not see what stands behind the token that is read.
    """
    net = cast(Any, model.model)
    ids, last = padded(texts)
    extra: dict[str, Any] = {"use_cache": False}
    if past is not None:
        extra = {
            "use_cache": True,
            "past_key_values": picked(past.cache, torch.zeros(len(ids), dtype=torch.long)),
            "position_ids": torch.arange(past.length, past.length + ids.shape[1]).expand(len(ids), -1),
            "attention_mask": ids.new_ones(len(ids), past.length + ids.shape[1]),
        }
    with full_precision(net), at_head(net, lambda h: pick(h, last.unsqueeze(1))):
        logits: Tensor = net(input_ids=ids, **extra).logits[:, 0]
    return logits


def padded(texts: Sequence[Text]) -> tuple[Tensor, Tensor]:
    """Texts as one tensor, padded on the right, and the places of their last tokens."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    return ids, torch.tensor([len(text) - 1 for text in texts])


def states(model: Model, texts: Sequence[Text]) -> Tensor:
    """The residual stream after each block at the last token of each text, `(layers, texts, width)`."""
    last = padded(texts)[1].unsqueeze(1)
    with block_outputs(model.model, model.anatomy.names, lambda h: pick(h, last)[:, 0]) as measured:
        run_last(model, texts)
    return torch.stack(measured)


def run_with(
    model: Model,
    texts: Sequence[Text],
    layers: Sequence[int],
    vectors: Tensor,
    *,
    add: bool = False,
    past: Past | None = None,
) -> Tensor:
    """The logits after each text where the residual stream at its last token, after block `layers[i]`, is `vectors[i]`
    of `(texts, width)`; or has it added."""
    last = padded(texts)[1]

    def put(layer: int) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], Any]:
        rows = torch.tensor([i for i, own in enumerate(layers) if own == layer])

        def after(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            h = hidden(out).clone()
            h[rows, last[rows]] = vectors[rows] + (h[rows, last[rows]] if add else 0)
            return with_hidden(out, h)

        return after

    places = [(model.model.get_submodule(model.anatomy.names[layer]), put(layer)) for layer in sorted(set(layers))]
    with hooked(after=places):
        return run_last(model, texts, past)


def hits(logits: Tensor, right: Tensor) -> list[float]:
    """1 for each text whose most likely next token is the right one, else 0; `logits` is `(texts, vocabulary)`."""
    return (logits.argmax(-1) == right).double().tolist()


def accuracy(logits: Tensor, right: Tensor) -> float:
    """The share of texts whose most likely next token is the right one."""
    return fmean(hits(logits, right))


def gained(with_: float, bare: float, prompted: float) -> float:
    """The share of the gain of a prompt that something else gains."""
    return (with_ - bare) / (prompted - bare)
