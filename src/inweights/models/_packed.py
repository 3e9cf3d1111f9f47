"""Updates of many prefixes at once: copies of the query, packed into one forward over the cached context.

Each copy has a bare twin, whose attention is masked from the context and whose stream is the output of the patched
blocks before. Both pass through the attention of each block: their difference is the update.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from inweights.models._prompt import Prompt
from inweights.models._twin import owner
from inweights.running import Block, Control, Stop, full_precision, hooked, signature
from inweights.theory import pseudoinverse

PackedFactors = dict[str, list[tuple[Tensor, Tensor]]]
"""For `"input"` and `"output"`: the factors `(u, v)` of each block's updates, one row for each copy."""


def packed(prompt: Prompt, keeps: Tensor, piece: int) -> PackedFactors:
    """The factors of the updates for every row of `keeps`, at the last query token.

    Returns for the input and the output control, and each block, `(u, v)` of shapes `(copies, out)` and `(copies, in)`.
    """
    model, net = prompt.model, prompt.model.model
    q, n = prompt.asked, prompt.context_tokens
    device, dtype = prompt.ids.device, model.dtype
    results: list[PackedFactors] = []
    own = torch.ones(q, q, dtype=torch.bool, device=device).tril()
    with torch.no_grad(), full_precision(model.model):
        everything = torch.arange(n + q, device=device).unsqueeze(0)
        keep: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in signature(net) else {}
        first = net(input_ids=prompt.ids[:, :n], position_ids=everything[:, :n], use_cache=True, **keep)
        cache = first.past_key_values
        for rows in keeps.split(piece):
            m = len(rows)
            mask = torch.zeros(m, q, n + m * q, dtype=torch.bool, device=device)
            mask[:, :, :n] = rows.unsqueeze(1)
            for i in range(m):
                mask[i, :, n + i * q : n + (i + 1) * q] = own
            low = torch.finfo(dtype).min
            added = torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill(~mask, low)
            with Copies(net, model.anatomy.blocks, m, q) as copies:
                net(
                    **keep,
                    input_ids=prompt.ids[:, n:].repeat(1, m),
                    position_ids=everything[:, n:].repeat(1, m),
                    attention_mask=added.reshape(1, 1, m * q, n + m * q),
                    past_key_values=cache,
                    use_cache=True,
                )
            cache.crop(-m * q)
            results.append(copies.factors())
    return {
        kind: [
            (torch.cat([u for u, _ in pieces]), torch.cat([v for _, v in pieces]))
            for pieces in zip(*(f[kind] for f in results), strict=True)
        ]
        for kind in ("input", "output")
    }


class Copies(ExitStack):
    """Hooks that record the updates of m packed copies of q query tokens in a forward over them."""

    def __init__(self, net: nn.Module, blocks: tuple[Block, ...], m: int, q: int, skip: int = 0) -> None:
        super().__init__()
        self.net, self.blocks, self.m, self.q = net, blocks, m, q
        self.skip = skip  # tokens that come before the copies in the same forward
        self.seen: dict[tuple[str, str], Tensor] = {}
        self.bare = False

    def __enter__(self) -> Copies:
        super().__enter__()
        for b in self.blocks:
            reader = owner(self.net, b.inputs[0].name)
            entry = self.net.get_submodule(b.entry) if b.entry else reader
            last = owner(self.net, b.outputs[0].name)
            hooks = [
                (reader, self._keep(b, "z", stop=True)),
                (entry, self._keep(b, "v")),
                (last, self._keep(b, "h")),
                (self.net.get_submodule(b.name), self._twin(b)),
            ]
            self.enter_context(hooked(before=hooks))
        return self

    def _last(self, x: Tensor) -> Tensor:
        """The last query token of every copy, `(m, width)`."""
        x = x if self.bare else x.reshape(1, -1, x.shape[-1])[:, self.skip :]
        return x.reshape(self.m, self.q, -1)[:, -1]

    def _keep(self, block: Block, what: str, stop: bool = False) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.seen[block.name, what + ("-bare" if self.bare else "")] = self._last(args[0])
            if stop and self.bare:
                raise Stop  # the input of the bare twin's MLP is known, and nothing more is needed of it

        return hook

    def _twin(self, block: Block) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self.bare:
                return
            self.bare = True
            own = [self._apart(a) for a in args]
            try:
                module.forward(*own, **{k: self._apart(v) for k, v in kwargs.items()})
            except Stop:
                pass
            finally:
                self.bare = False

        return hook

    def _apart(self, value: Any) -> Any:
        """Tensors over the packed copies as a batch of them."""
        total = self.skip + self.m * self.q
        if isinstance(value, tuple):
            return tuple(self._apart(v) for v in value)
        if hasattr(value, "get_seq_length"):
            return None  # a twin has no cache
        if isinstance(value, Tensor) and value.ndim == 4 and value.shape[:3] == (1, 1, total):
            return self._causal(value)
        if isinstance(value, Tensor) and value.ndim >= 2 and value.shape[:2] == (1, total):
            return value[:, self.skip :].reshape(self.m, self.q, *value.shape[2:])
        return value

    def _causal(self, mask: Tensor) -> Tensor:
        """The mask of a query by itself."""
        causal = torch.ones(self.q, self.q, dtype=torch.bool, device=mask.device).tril()
        return mask.new_zeros(1, 1, self.q, self.q).masked_fill(~causal, torch.finfo(mask.dtype).min)

    def factors(self) -> PackedFactors:
        """`(u, v)` of the input update and of the output update of every block."""
        results: PackedFactors = {"input": [], "output": []}
        for b in self.blocks:
            z, bare, h = (self.seen[b.name, key] for key in ("z", "z-bare", "h"))
            stack = torch.cat([matrix(self.net, c) for c in b.inputs])
            results["input"].append(((z - bare) @ stack.mT, pseudoinverse(bare)))
            delta = self.seen[b.name, "v"] - self.seen[b.name, "v-bare"]
            results["output"].append((delta, pseudoinverse(h)))
        return results


def matrix(net: nn.Module, control: Control) -> Tensor:
    """A control as it acts, `(..., out, in)`, however it is stored."""
    W = net.get_parameter(control.name).detach()
    return W.mT if control.transposed else W
