"""`Chain`: the blocks of a model, and the arguments with which the model itself calls each of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.running._hidden import is_cache, place_of_stream, with_hidden
from inweights.running._hooks import Stop, standing_in


@dataclass(frozen=True)
class Call:
    """The arguments of one block without the hidden states, whose place is `spot`: an index or a keyword."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spot: int | str


@dataclass(frozen=True)
class _Rows:
    """A tensor whose rows are all the same, held once."""

    row: Tensor
    count: int
    view: bool

    def made(self) -> Tensor:
        size = (self.count, *self.row.shape[1:])
        # Some models reshape their arguments, which a view with a stride of 0 does not allow.
        return self.row.expand(size) if self.view else self.row.expand(size).contiguous()


_CACHE = object()
"""The placeholder of the cache in recorded arguments: each run of a block gets a fresh one."""


@dataclass(frozen=True)
class Chain:
    """The blocks of a model, in order, and what a forward of each returns (the hidden states in it do not count)."""

    net: nn.Module
    names: tuple[str, ...]
    outs: tuple[Any, ...]
    known: dict[Any, list[Tensor]] = field(default_factory=dict)

    def module(self, k: int) -> nn.Module:
        return self.net.get_submodule(self.names[k])

    def recorded(self, ids: Tensor, **extra: Any) -> tuple[Tensor, list[Call]]:
        """The hidden states `(b, T, width)` before the first block, and the arguments of each block."""
        calls: list[Call] = []
        start: list[Tensor] = []
        same: dict[int, tuple[Any, Any]] = {}

        def stand_in(k: int) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                spot = place_of_stream(args, kwargs)
                if spot is None:
                    raise InputError("A block of this model takes no hidden states, so it cannot be folded alone.")
                x = args[spot] if isinstance(spot, int) else kwargs[spot]
                bare = tuple(None if i == spot else self._slim(a, len(ids), same) for i, a in enumerate(args))
                named = {n: None if n == spot else self._slim(a, len(ids), same) for n, a in kwargs.items()}
                calls.append(Call(bare, named, spot))
                start.append(x)
                if k == len(self.names) - 1:
                    raise Stop
                return with_hidden(copy.copy(self.outs[k]), x)

            return forward

        with ExitStack() as stack:
            for k in range(len(self.names)):
                stack.enter_context(standing_in(self.module(k), stand_in(k)))
            try:
                self.net(input_ids=ids, **extra)
            except Stop:
                return start[0], calls
        raise InputError("The last block of this model was not run, so its blocks cannot be folded one by one.")

    def _slim(self, value: Any, batch: int, same: dict[int, tuple[Any, Any]]) -> Any:
        """An argument without what it holds twice: equal rows, and tensors that an earlier call had too."""
        if is_cache(value):
            return _CACHE
        if isinstance(value, tuple | list):
            return type(value)(self._slim(v, batch, same) for v in value)
        if not isinstance(value, Tensor):
            return value
        if id(value) not in same:  # the tensor itself is kept as well, so that its id is not given to another
            kept: Any = value
            if value.ndim and batch > 1 and len(value) == batch and torch.equal(value, value[:1].expand_as(value)):
                kept = _Rows(self._interned(value[:1].clone()), batch, value.stride(0) == 0)
            else:
                kept = self._interned(value)
            same[id(value)] = (value, kept)
        return same[id(value)][1]

    def _interned(self, value: Tensor) -> Tensor:
        """An equal tensor that is held already, or this one: masks and rotations of batches of one length agree."""
        recent = self.known.setdefault((value.shape, value.dtype), [])
        for other in recent:
            if torch.equal(value, other):
                return other
        recent.append(value)
        del recent[:-4]
        return value


def filled(value: Any, cache: Any) -> Any:
    """A recorded argument as a block takes it, with this cache where there was one."""
    if value is _CACHE:
        return cache
    if isinstance(value, _Rows):
        return value.made()
    return type(value)(filled(v, cache) for v in value) if isinstance(value, tuple | list) else value
