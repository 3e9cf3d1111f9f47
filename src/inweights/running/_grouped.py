"""Attention of one new token to kept keys and values, which are not copied for every head that shares them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "inweights_grouped"
_UNSHARED: Any = SimpleNamespace()
"""In place of a module that names how many query heads share one head of keys."""


def _grouped(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """PyTorch's attention, for queries `(b, heads, t, d)` and keys and values `(b, shared, places, d)`.

    With a mask, transformers copies the keys and values to all heads before: seven times for Qwen2.5. For one token,
    `t = 1`, the heads that share keys are the same as so many queries of one head.
    """
    b, heads, t, d = query.shape
    shared = key.shape[1]
    if t > 1 or shared == heads or attention_mask is None or options.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    together = query.reshape(b, shared, heads // shared, d)
    out, _ = sdpa_attention_forward(_UNSHARED, together, key, value, attention_mask, **options)
    return out.transpose(1, 2).reshape(b, t, heads, out.shape[-1]), None


AttentionInterface.register(NAME, _grouped)


@contextmanager
def grouped_attention(net: nn.Module) -> Iterator[None]:
    """While active, a model that attends by PyTorch's attention does it in groups of heads."""
    configs = list({id(m.config): m.config for m in net.modules() if hasattr(m, "config")}.values())
    own: list[Any] = [c for c in configs if getattr(c, "_attn_implementation_internal", None) == "sdpa"]
    for config in own:
        config._attn_implementation_internal = NAME
    try:
        yield
    finally:
        for config in own:
            config._attn_implementation_internal = "sdpa"
