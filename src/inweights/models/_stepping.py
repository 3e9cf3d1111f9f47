"""Forwards over some of the tokens: absolute positions, and one token at a time over a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from inweights._errors import out_of_memory
from inweights.models._hidden import is_cache, run, signature


def inputs(model: nn.Module, ids: Tensor, positions: Tensor | None) -> dict[str, Any]:
    """What a forward over some of the tokens is called with: absolute positions, where the model takes them."""
    extra: dict[str, Any] = {"attention_mask": torch.ones_like(ids)}
    if positions is not None and takes_positions(model):
        extra["position_ids"] = positions
    return extra


def takes_positions(model: nn.Module) -> bool:
    """Whether the model can be told the positions of its tokens."""
    return "position_ids" in signature(model)


_STEPPABLE: WeakKeyDictionary[nn.Module, dict[torch.dtype, str]] = WeakKeyDictionary()
"""What was seen of each model: whether a cache can be stepped over depends on the model's code, not on its tokens."""


def steppable(model: nn.Module, ids: Tensor) -> str:
    """Why the model cannot be run token by token over its cache; empty if that gives what a whole forward gives."""
    known = _STEPPABLE.setdefault(model, {})
    dtype = next(model.parameters()).dtype
    if dtype not in known:
        known[dtype] = _steps_apart(model, ids[:, -4:])
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
    """What puts the cache back, in the layers of this module, to how it is now: a module that runs again would write
    to it again. `None` where no such cache is among its arguments."""
    cache = next((a for a in arguments if is_cache(a)), None)
    layers = getattr(cache, "layers", None)
    numbers = (getattr(m, "layer_idx", None) for m in module.modules())
    indices = {i for i in numbers if isinstance(i, int)}
    if layers is None or not indices:
        return None
    states = {i: _copied(vars(layers[i])) for i in indices if i < len(layers)}

    def restore() -> None:
        for i, state in states.items():
            vars(layers[i]).clear()
            vars(layers[i]).update(_copied(state))
        if len(states) < len(indices):  # those that were added since
            del layers[min(indices - states.keys()) :]

    return restore


def _copied(value: Any) -> Any:
    """Tensors anew, also those in dicts and lists; everything else as it is."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value
