"""A plain forward of a model, and the hidden states among the arguments and outputs of its blocks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from inweights._errors import InputError


def vocabulary(model: nn.Module) -> int:
    """The size of the model's vocabulary."""
    table: Any = cast(Any, model).get_input_embeddings()
    first: Any = table[0] if isinstance(table, nn.ModuleList) else table
    return len(first.weight)


def run(model: nn.Module, ids: Tensor, *, last: int = 0, **kwargs: Any) -> Tensor:
    """The logits of a plain forward without caches, `(batch, n, vocabulary)`; of the `last` tokens alone, if given.

    Logits of a long context with a large vocabulary take more memory than the model: where the model can leave them
    out (`logits_to_keep`), they are never computed.
    """
    if last and "logits_to_keep" in signature(model):
        kwargs["logits_to_keep"] = last
    logits = model(input_ids=ids, use_cache=False, **kwargs).logits
    return logits[:, -last:] if last else logits


def signature(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    """The arguments that the forward of a model takes."""
    inner = getattr(model, "get_base_model", lambda: model)()  # an adapter's wrapper hides the signature
    return inspect.signature(inner.forward).parameters


def hidden(value: Any) -> Tensor:
    """The hidden states in an argument or an output of a block."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Sequence) and value and isinstance(value[0], Tensor):
        return value[0]
    for name in ("last_hidden_state", "logits"):
        if isinstance(getattr(value, name, None), Tensor):
            return getattr(value, name)
    raise InputError(f"A block returned {type(value).__name__}, in which no hidden states were found.")


def with_hidden(value: Any, new: Tensor) -> Any:
    """The output of a block with other hidden states."""
    if isinstance(value, Tensor):
        return new
    if isinstance(value, tuple):
        return (new, *value[1:])
    if isinstance(value, list):
        return [new, *value[1:]]
    setattr(value, "logits" if hasattr(value, "logits") else "last_hidden_state", new)
    return value


def stream(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The hidden states among the arguments of a block; `None` if there are none."""
    place = place_of_stream(args, kwargs)
    return None if place is None else (args[place] if isinstance(place, int) else kwargs[place])


def with_stream(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], new: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a block with other hidden states."""
    place = place_of_stream(args, kwargs)
    if isinstance(place, int):
        return (*args[:place], new, *args[place + 1 :]), dict(kwargs)
    return args, dict(kwargs) if place is None else {**kwargs, place: new}


def place_of_stream(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | str | None:
    """Where the hidden states are among the arguments of a block: an index or a keyword; `None` if there are none."""
    for i, a in enumerate(args):
        if isinstance(a, Tensor) and a.is_floating_point() and a.ndim >= 3:
            return i
    return next((k for k, a in kwargs.items() if isinstance(a, Tensor) and a.is_floating_point() and a.ndim == 3), None)


def is_cache(value: Any) -> bool:
    """Whether a block's argument is a cache of keys, values or states."""
    return hasattr(value, "get_seq_length") or hasattr(value, "conv_states")


def without_cache(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a block without any cache: some models fill one by default, and a block that is run again
    would write to it again."""
    own = tuple(None if is_cache(v) else v for v in args)
    return own, {k: None if is_cache(v) else v for k, v in kwargs.items()}
