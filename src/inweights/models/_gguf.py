"""LoRA adapters as GGUF, with rows in the order of llama.cpp, whose converter turns some queries and keys around."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from inweights._errors import InputError
from inweights._files import beside
from inweights.models._adapter import Factors
from inweights.models._load import Model

# Transformers rotates channel i with channel i + d/2 of a head, llama.cpp channel 2i with 2i + 1 in these families:
# its converter (`LlamaModel.permute`) reorders the rows of both matrices, so an update's rows must follow.
_TURNED = {"llama", "granite", "smollm3", "arcee"}
_PLAIN = {"gpt2", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "starcoder2", "olmo2"}
"""Families whose matrices llama.cpp keeps as they are."""


def write_gguf(factors: Factors, model: Model, path: Path) -> Path:
    """A LoRA adapter for llama.cpp, for the GGUF of the same base model."""
    try:
        import gguf
    except ImportError:
        raise InputError("GGUF adapters need the gguf package: pip install 'inweights[gguf]'.") from None
    factors = as_llama_cpp(factors, model)
    config: Any = model.model.config
    known = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    if config.model_type not in known:
        raise InputError(f"The GGUF format has no name for models of type {config.model_type!r}.")
    names = gguf.get_tensor_name_map(known[config.model_type], len(model.anatomy.blocks))
    theirs = {name: names.get_name(name) for name in factors}
    missing = [name for name, result in theirs.items() if result is None]
    if missing:
        raise InputError(f"The GGUF format has no name for {missing[0]!r} of this model.")
    alpha = max(A.shape[0] for A, _ in factors.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    half = beside(path)
    try:
        writer = gguf.GGUFWriter(str(half), config.model_type)
        writer.add_string("general.type", "adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(alpha))
        for name, (A, B) in factors.items():
            # llama.cpp scales by alpha over the rank of each matrix: undo that where ranks differ.
            scaled = B * (A.shape[0] / alpha)
            writer.add_tensor(f"{theirs[name]}.weight.lora_a", A.float().cpu().contiguous().numpy())
            writer.add_tensor(f"{theirs[name]}.weight.lora_b", scaled.float().cpu().contiguous().numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return path


def as_llama_cpp(factors: Factors, model: Model) -> Factors:
    """The same updates, `{module: (A (r, in), B (out, r))}`, with rows in the order of llama.cpp.

    An adapter with a wrong order would load and run with wrong results: a family that is in neither list is refused.
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
    """The halves of each head of `width` rows, interleaved; `B` is `(heads · width, r)`."""
    return B.unflatten(0, (-1, 2, width // 2)).transpose(1, 2).flatten(0, 2)
