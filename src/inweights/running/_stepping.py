"""Forwards over some of the tokens: absolute positions, and one token at a time over a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from inweights._errors import out_of_memory
from inweights.running._hidden import is_cache, run, signature, vocabulary


def inputs(model: nn.Module, ids: Tensor, positions: Tensor | None) -> dict[str, Any]:
    """What a forward over some of the tokens is called with: absolute positions, where the model takes them."""
    extra: dict[str, Any] = {"attention_mask": torch.ones_like(ids)}
    if positions is not None and takes_positions(model):
        extra["position_ids"] = positions
    return extra


def takes_positions(model: nn.Module) -> bool:
    """Whether the model takes the positions of its tokens as an argument."""
    return "position_ids" in signature(model)


_STEPPABLE: WeakKeyDictionary[nn.Module, dict[torch.dtype, str]] = WeakKeyDictionary()
"""By model and dtype: whether a cache can be stepped over depends on the model's code, not on a prompt."""


def steppable(model: nn.Module, ids: Tensor) -> str:
    """Why the model cannot be run token by token over its cache; empty if that has the results of a whole forward."""
    known = _STEPPABLE.setdefault(model, {})
    dtype = next(model.parameters()).dtype
    if dtype not in known:
        fixed = (torch.arange(4, device=ids.device) * 7 + 5) % vocabulary(model)
        known[dtype] = _steps_apart(model, fixed.unsqueeze(0))
    return known[dtype]


def _steps_apart(model: nn.Module, ids: Tensor) -> str:
    at = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
    try:
        with torch.no_grad():
            whole = run(model, ids, **inputs(model, ids, at))
            cache: dict[str, Any] = {}
            for i in range(ids.shape[1]):
                logits, cache = step(model, ids[:, i : i + 1], at[:, i : i + 1], i + 1, cache)
                off = float((logits[0, -1] - whole[0, i]).abs().max())
                if not off <= 0.02 * float(whole[0, i].abs().max()):
                    return f"its logits then differ by {off:.1e}"
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        if out_of_memory(error):
            raise
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ""


def step(
    net: nn.Module, ids: Tensor, positions: Tensor, seen: int, cache: dict[str, Any]
) -> tuple[Tensor, dict[str, Any]]:
    """One forward over a cache: the logits of its last token, `(1, 1, vocabulary)`, and the cache after it."""
    extra: dict[str, Any] = {"attention_mask": torch.ones(1, seen, dtype=torch.long, device=ids.device)}
    if takes_positions(net):
        extra["position_ids"] = positions
    if "logits_to_keep" in signature(net):
        extra["logits_to_keep"] = 1
    out = net(input_ids=ids, use_cache=True, **extra, **cache)
    kept = {k: out[k] for k in ("past_key_values", "cache_params", "state") if k in out and out[k] is not None}
    return out.logits[:, -1:], kept


def bookmark(module: nn.Module, arguments: Iterable[Any]) -> Callable[[], None] | None:
    """A function that restores the caches and states among the arguments of a module, as far as the module writes to
    them: one that is run again would write again. `None` where there are none."""
    numbers = (getattr(m, "layer_idx", None) for m in module.modules())
    own = {i for i in numbers if isinstance(i, int)}
    steps = [step for argument in arguments for step in _restorers(argument, own)]

    def restore() -> None:
        for step in steps:
            step()

    return restore if steps else None


def _restorers(value: Any, own: set[int]) -> list[Callable[[], None]]:
    """A function that restores one argument; `own` are the numbers of the layers that the module has."""
    if isinstance(value, list) and value and all(isinstance(v, Tensor) for v in value):
        held, before = list(value), _copied(value)

        def put_back() -> None:  # states that are written to in place
            value[:] = held
            with torch.no_grad():
                for t, old in zip(held, before, strict=True):
                    t.copy_(old)

        return [put_back]
    if not is_cache(value):
        return []
    layers = getattr(value, "layers", None)
    if not isinstance(layers, list):
        # A cache of caches is restored part by part; where a part cannot be restored, the cache is not used.
        inner = [v for v in vars(value).values() if is_cache(v)]
        return [step for v in inner for step in _restorers(v, own)] if inner else [_attributes(value)]
    if not own:
        return []
    known = [i for i in own if i < len(layers)]

    def shorten() -> None:
        if len(known) < len(own):  # layers that were added since
            del layers[min(own.difference(known)) :]

    # Lists beside the layers, as of a cache of linear attention, hold one entry for each layer as well.
    return [*(_attributes(layers[i]) for i in known), _attributes(value, skip=("layers",)), shorten]


def _attributes(thing: Any, skip: tuple[str, ...] = ()) -> Callable[[], None]:
    """Restores the attributes of an object that are tensors, numbers, lists or dictionaries of them."""
    before = _copied({k: v for k, v in vars(thing).items() if k not in skip})

    def put_back() -> None:
        for name in [k for k in vars(thing) if k not in skip and k not in before]:
            delattr(thing, name)
        vars(thing).update(_copied(before))

    return put_back


def _copied(value: Any) -> Any:
    """Copies of tensors, also of those in dicts and lists; everything else as it is."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value
