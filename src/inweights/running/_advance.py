"""Several texts that are continued together, a token at a time: over a cache that grows, or over one of fixed size,
which can be replayed as a CUDA graph."""

from __future__ import annotations

import copy
import warnings
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

from inweights.running._grouped import grouped_attention
from inweights.running._head import last_logits

LEAST = 8
"""New tokens from which a graph is worth its capture, which costs about four tokens."""
FEW = 64
"""Texts from which their number decides about the time of a step."""
WIDTHS = 16
"""A fixed cache has a multiple of so many places, as fast kernels of attention need."""
APART = 0.1
"""The largest mean difference of the logits of a text, in their standard deviation, between both kinds of cache:
rounding in bfloat16 makes 0.02, a wrong mask or position more than 0.3."""

_FIXABLE: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""The models that were tried, and whether they can be run over a fixed cache."""


class Growing:
    """Texts over a cache to which every step adds.

    - `mask`: which places each text sees, `(b, places)`, up to those that are read next.
    - `positions`: of the tokens that are read next, `(b, t)`.
    """

    drop = 0.75
    """The share of texts in progress below which those that have ended are dropped."""

    def __init__(self, net: nn.Module, cache: Any, mask: Tensor, positions: Tensor) -> None:
        self.net, self.cache, self.mask, self.positions = net, cache, mask, positions

    def read(self, ids: Tensor) -> Tensor:
        """Reads tokens `(b, t)`; the logits behind the last of each text, `(b, vocabulary)`."""
        out: Any = self.net(
            input_ids=ids, attention_mask=self.mask, position_ids=self.positions, past_key_values=self.cache,
            use_cache=True, **last_logits(self.net),
        )  # fmt: skip
        self.cache = out.past_key_values
        self.positions = self.positions[:, -1:] + 1
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(ids), 1)], 1)
        logits: Tensor = out.logits[:, -1]
        return logits

    def keep(self, rows: Tensor) -> None:
        """Goes on with some of the texts; `rows` are indices `(b,)`."""
        self.mask, self.positions = self.mask[rows], self.positions[rows]
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]


class Fixed:
    """Texts over a cache with room for `room` more tokens, one token at a time.

    All tensors stay where they are, so that a step can be captured as a CUDA graph: hundreds of kernels are launched
    at once, which is most of the time of a step. `read` is that of `Growing`, for one token of each text.
    """

    def __init__(self, grown: Growing, room: int, *, graph: bool) -> None:
        self.net = grown.net
        rows, seen = len(grown.mask), grown.mask.shape[1] - 1
        places = -(-(seen + room) // WIDTHS) * WIDTHS
        self.ids, self.positions = torch.zeros_like(grown.positions), grown.positions.clone()
        self.at = torch.tensor([seen], device=grown.mask.device)
        kind = next(grown.net.parameters()).dtype
        # Added to the scores: four dimensions are taken by the models as they are.
        self.mask = torch.full((rows, 1, 1, places), torch.finfo(kind).min, dtype=kind, device=grown.mask.device)
        self.mask[:, 0, 0, :seen].masked_fill_(grown.mask[:, :seen].bool(), 0.0)
        self.cache = copy.copy(grown.cache)
        self.cache.layers = [_Places(layer, places, self.at) for layer in grown.cache.layers]
        self.logits = torch.empty(0)
        self.graph = self._captured() if graph else None

    @property
    def drop(self) -> float:
        """As that of `Growing`: dropping takes a new capture, and few texts cost hardly more than one."""
        return 0.25 if len(self.mask) > FEW else 0.0

    def read(self, ids: Tensor) -> Tensor:
        self.ids.copy_(ids)
        if self.graph is None:
            self.logits = self._step()
        else:
            self.graph.replay()
        self.at += 1
        self.positions += 1
        return self.logits

    def keep(self, rows: Tensor) -> None:
        """Goes on with some of the texts, as `Growing.keep`; a graph is captured anew, or its steps are launched one by
        one where that fails."""
        self.mask, self.positions, self.ids = self.mask[rows], self.positions[rows], self.ids[rows]
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]
        if self.graph is not None:
            self.graph = None  # its memory is free before the next one takes some
            try:
                self.graph = self._captured()
            except RuntimeError as error:
                _warn(error)

    def _step(self) -> Tensor:
        """The logits of the tokens in `ids`. Doing it twice does no harm: they are written to the same places."""
        self.mask.index_fill_(-1, self.at, 0.0)
        with grouped_attention(self.net):
            out: Any = self.net(
                input_ids=self.ids, attention_mask=self.mask, position_ids=self.positions, past_key_values=self.cache,
                use_cache=True, **last_logits(self.net),
            )  # fmt: skip
        logits: Tensor = out.logits[:, -1]
        return logits

    def _captured(self) -> torch.cuda.CUDAGraph:
        with torch.cuda.device(self.ids.device):
            before, side = torch.cuda.current_stream(), torch.cuda.Stream()
            try:
                side.wait_stream(before)
                with torch.cuda.stream(side):
                    self._step()
                before.wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self.logits = self._step()
            finally:
                torch.cuda.set_stream(before)  # a capture that fails leaves its own
        return graph


class _Places(DynamicLayer):
    """Keys and values `(b, heads, places, d)` of one layer, in which those at `at` are replaced."""

    def __init__(self, layer: Any, places: int, at: Tensor) -> None:
        super().__init__()
        self.at = at
        self.keys, self.values = (_roomy(t, places) for t in (layer.keys, layer.values))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        self.keys.index_copy_(2, self.at, key_states)
        self.values.index_copy_(2, self.at, value_states)
        return self.keys, self.values


def _roomy(t: Tensor, places: int) -> Tensor:
    """A tensor `(b, heads, n, d)` at the beginning of one of `(b, heads, places, d)`."""
    result = t.new_zeros(*t.shape[:2], places, t.shape[-1])
    result[:, :, : t.shape[2]] = t
    return result


def fixed(grown: Growing, room: int) -> Fixed | None:
    """The same texts over a fixed cache, as a CUDA graph; `None` where that is not worth it or not possible.

    A model is tried once: there are models with other masks, and steps that cannot be captured.
    """
    net, layers = grown.net, getattr(grown.cache, "layers", [None])
    if room < LEAST or grown.mask.device.type != "cuda" or not _FIXABLE.get(net, True):
        return None
    if not all(type(layer) is DynamicLayer for layer in layers):  # a window, or a state of another kind
        return None
    if net not in _FIXABLE:
        _FIXABLE[net] = _agree(grown)
        if not _FIXABLE[net]:
            return None
    try:
        return Fixed(grown, room, graph=True)
    except RuntimeError as error:  # memory, above all: both caches are kept for a moment
        _warn(error)
        return None


def _agree(grown: Growing) -> bool:
    """Whether the next step is the same over both kinds of cache, up to rounding."""
    some = torch.arange(min(4, len(grown.mask)), device=grown.mask.device)
    own = Growing(grown.net, copy.copy(grown.cache), grown.mask, grown.positions)
    own.cache.layers = [copy.copy(layer) for layer in grown.cache.layers]
    own.keep(some)
    ids = torch.zeros(len(some), 1, dtype=torch.long, device=grown.mask.device)
    try:
        other = Fixed(own, 1, graph=True).read(ids).float()
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:  # what a model does with a mask is its own
        _warn(error)
        return False
    expected = own.read(ids).float()
    apart = (other - expected).abs().mean(1) / expected.std(1)
    if not bool((apart <= APART).all()):
        _warn(f"its logits would be {float(apart.max()):.2g} standard deviations apart")
        return False
    return True


def _warn(why: object) -> None:
    first = (str(why).splitlines() or [type(why).__name__])[0]
    warnings.warn(f"No CUDA graph of the generation ({first}): slower.", RuntimeWarning, stacklevel=2)
