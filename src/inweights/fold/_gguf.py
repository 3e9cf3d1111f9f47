"""Rows in the order of llama.cpp: its converter turns the queries and keys of some families around."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from inweights._errors import InputError
from inweights.models import Model
from inweights.models._adapter import Factors

# Transformers rotates channel i with channel i + d/2 of a head, llama.cpp channel 2i with 2i + 1 in these families:
# its converter (`LlamaModel.permute`) reorders the rows of both matrices, so an update's rows must follow.
_TURNED = {"llama", "granite", "smollm3", "arcee"}
_PLAIN = {"gpt2", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "starcoder2", "olmo2"}
"""Families whose matrices llama.cpp keeps as they are."""


def as_llama_cpp(factors: Factors, model: Model) -> Factors:
    """The same updates, `{module: (A (r, in), B (out, r))}`, with rows where llama.cpp has them.

    A wrong order would load and run, and quietly do something else: a family that is in neither list is refused.
    """
    config: Any = model.model.config
    if config.model_type in _PLAIN:
        return factors
    if config.model_type not in _TURNED:
        attends = [name for name in factors if "attn" in name or "attention" in name]
        if attends:
            raise InputError(
                f"It is not known in which order llama.cpp keeps the rows of {attends[0]!r} in models of type "
                f"{config.model_type!r}: write --format merged, and convert that with llama.cpp's own program."
            )
        return factors
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return {
        name: (A, _interleaved(B, width) if name.endswith((".q_proj", ".k_proj")) else B)
        for name, (A, B) in factors.items()
    }


def _interleaved(B: Tensor, width: int) -> Tensor:
    """The halves of each head of `width` rows, taken in turns; `B` is `(heads · width, r)`."""
    return B.unflatten(0, (-1, 2, width // 2)).transpose(1, 2).flatten(0, 2)
