"""`Walk`: hidden states of many batches that advance through a model block by block, with the model's own arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.running._chain import Call, Chain, filled
from inweights.running._head import last_logits
from inweights.running._hidden import hidden, run, vocabulary
from inweights.running._hooks import hooked
from inweights.running._sample import widened
from inweights.running._stepping import steppable, takes_positions
from inweights.running._store import Store


class Walk:
    """One stream of hidden states `(b, T, width)` for each batch, advancing block by block.

    **Arguments:**

    - `chain`: the blocks.
    - `ids`: the tokens of each batch, `(b, T)`, padded on the right.
    - `store`, `name`: where the hidden states are held, under `(name, batch)`.
    - `prefix`: tokens before those of every batch, `(n,)`. They are run once and their keys and values shared by
      all rows of all batches. Where the model's cache does not allow that (`whole` says why) they are run with each
      batch, and the first `skip` rows of all hidden states are theirs.

    Positions begin at 0 with the first token of the prefix, or of the batch if there is none.
    """

    def __init__(
        self, chain: Chain, ids: Sequence[Tensor], store: Store, name: str, prefix: Tensor | None = None
    ) -> None:
        self.chain, self.store, self.name = chain, store, name
        self.whole, self.skip, self._cache = "", 0, None
        past = 0 if prefix is None else len(prefix)
        if prefix is not None and past:
            self._cache, self.whole = shared_cache(chain.net, prefix.unsqueeze(0))
            if self.whole:
                ids = [torch.cat([prefix.expand(len(i), -1), i], 1) for i in ids]
                self.skip, past = past, 0
        self.sizes = [len(i) for i in ids]
        self._calls: list[list[Call]] = []
        for i, each in enumerate(ids):
            extra = self._extra(each, past)
            x, calls = chain.recorded(each, **extra)
            store[name, i] = x
            self._calls.append(calls)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, batch: int) -> Tensor:
        return self.store[self.name, batch]

    def __setitem__(self, batch: int, value: Tensor) -> None:
        self.store[self.name, batch] = value

    def rows(self, value: Tensor) -> Tensor:
        """Hidden states without the rows of the prefix."""
        return value[:, self.skip :]

    def run(self, block: int, batch: int, x: Tensor | None = None) -> Tensor:
        """The output of a block for the batch's hidden states, or for `x` in their place. Nothing is advanced."""
        call = self._calls[batch][block]
        x = self[batch].clone() if x is None else x  # some blocks work in place
        # A copy for this run alone, discarded with what the block adds to its cache.
        cache = None if self._cache is None else widened(self._cache, self.sizes[batch])
        args = [filled(a, cache) for a in call.args]
        kwargs = {k: filled(a, cache) for k, a in call.kwargs.items()}
        if isinstance(call.spot, int):
            args[call.spot] = x
        else:
            kwargs[call.spot] = x
        return hidden(self.chain.module(block)(*args, **kwargs))

    def advance(self, block: int) -> None:
        """Takes all batches through a block as it is."""
        for i in range(len(self)):
            self[i] = self.run(block, i)

    def _extra(self, ids: Tensor, past: int) -> dict[str, Any]:
        b, T = ids.shape
        # All ones: what is padded stands behind every real token, and a causal mask hides it.
        extra: dict[str, Any] = {"attention_mask": ids.new_ones(b, past + T), "use_cache": self._cache is not None}
        if takes_positions(self.chain.net):
            extra["position_ids"] = torch.arange(past, past + T, device=ids.device).expand(b, -1)
        if self._cache is not None:
            extra["past_key_values"] = widened(self._cache, b)
        return extra


def chain_of(net: nn.Module, names: Sequence[str]) -> Chain:
    """The chain of these blocks, recorded in one short forward.

    It is checked that running block by block has the result of that forward: a model whose blocks pass on more than
    hidden states, or that computes something between them, is refused.
    """
    ids = probe(net)
    outs: list[Any] = []
    with hooked(after=[(net.get_submodule(n), lambda m, a, k, out: outs.append(out)) for n in names]), torch.no_grad():
        run(net, ids)
    if len(outs) != len(names):
        raise InputError("The blocks of this model do not each run once, so they cannot be folded one by one.")
    chain = Chain(net, tuple(names), tuple(outs))
    goal = hidden(outs[-1])
    with Store() as store, torch.no_grad():
        walk = Walk(chain, [ids], store, "probe")
        for k in range(len(names)):
            walk.advance(k)
        off, size = float((walk[0] - goal).abs().max()), float(goal.abs().max())
    if not off <= 10 * torch.finfo(goal.dtype).eps ** 0.75 * size:
        raise InputError(
            "The blocks of this model hand on more than hidden states, so they cannot be folded one by one."
        )
    return chain


def probe(net: nn.Module) -> Tensor:
    """A few tokens that any vocabulary has, `(1, 16)`."""
    return ((torch.arange(5, 21) * 7) % max(2, vocabulary(net))).unsqueeze(0).to(next(net.parameters()).device)


def shared_cache(net: nn.Module, prefix: Tensor) -> tuple[Any, str]:
    """The cache after the prefixes `(k, n)`, of which `widened` and `picked` make that of more rows; or why there is
    none to share."""
    why = steppable(net, prefix)
    if why:
        return None, why
    extra: dict[str, Any] = {"attention_mask": torch.ones_like(prefix), "use_cache": True}
    if takes_positions(net):
        extra["position_ids"] = torch.arange(prefix.shape[1], device=prefix.device).unsqueeze(0)
    extra |= last_logits(net)
    with torch.no_grad():
        cache = getattr(net(input_ids=prefix, **extra), "past_key_values", None)
    layers = getattr(cache, "layers", None)
    if not layers:
        return None, "its cache has no layers"
    for layer in layers:
        tensors = {k for k, v in vars(layer).items() if isinstance(v, Tensor) and v.ndim}
        if tensors != {"keys", "values"}:
            return None, f"its cache holds {', '.join(sorted(tensors)) or 'nothing'} instead of keys and values"
    return cache, ""
