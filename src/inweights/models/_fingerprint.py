"""What identifies a model: a hash of all its values, its configuration and its tokenizer."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError

CHUNK = 1 << 20
"""Elements that are converted and hashed at a time: small enough for a processor's cache."""
HEX = 64
"""Hexadecimal digits of a sha256: the first part of a fingerprint, and all of one by the first version."""
NO_TOKENIZER = "0" * 32

_BOOKKEEPING = {
    "_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "attn_implementation",
    "_attn_implementation", "experts_implementation", "_experts_implementation", "use_cache", "quantization_config",
}  # fmt: skip
"""Settings that describe the origin of a model or how it is run, and not what it computes."""


@dataclass(frozen=True)
class Weights:
    """What one pass over all values gives: their hash, and the names of the tensors with NaN or infinite entries."""

    digest: str
    not_finite: tuple[str, ...]


def read_weights(model: nn.Module) -> Weights:
    """Hashes and checks every parameter and every buffer that belongs to the checkpoint, in one pass.

    Values are hashed as float32, with the name and shape of their tensor: a checkpoint has the same hash in float32
    and in float64, whichever of float16, bfloat16 and float32 it is stored in. Loaded in float16 or bfloat16 it has
    another one if that rounds its values.
    """
    named = _tensors(model)
    distinct = {id(tensor): tensor for _, tensor in named}  # tied tensors are read once
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing releases the interpreter lock
        read = dict(zip(distinct, pool.map(_digest, distinct.values()), strict=True))
    whole = hashlib.sha256()
    for name, tensor in named:
        whole.update(f"{name} {tuple(tensor.shape)} {read[id(tensor)][0]}\n".encode())
    return Weights(whole.hexdigest(), tuple(name for name, tensor in named if not read[id(tensor)][1]))


def fingerprint(weights: str, config: Any, tokenizer: Any) -> str:
    """96 hexadecimal digits: 64 of the values and the configuration, then 32 of the tokenizer, 0 if there is none.

    The configuration is that part of it which differs from the defaults of its class and is not mere bookkeeping, so
    that a later transformers with one more setting gives the same fingerprint.
    """
    settings = json.dumps(_settings(config), sort_keys=True, default=str)
    base = hashlib.sha256(f"{weights} {settings}".encode()).hexdigest()
    return base + (NO_TOKENIZER if tokenizer is None else _tokenizer_digest(tokenizer))


def agrees(stored: str, model: nn.Module, own: str) -> bool:
    """Whether a stored fingerprint is that of the model with the fingerprint `own`.

    Where one side has no tokenizer (it was given as token ids), only the rest is compared. A fingerprint by the first
    version, of a sample of the values, is compared in the way in which it was made.
    """
    if len(stored) == HEX:
        return stored == sampled(model)
    tokenizers = {stored[HEX:], own[HEX:]} - {NO_TOKENIZER}
    return stored[:HEX] == own[:HEX] and len(tokenizers) <= 1


def sampled(model: nn.Module) -> str:
    """The fingerprint of the first version: names, shapes and a sample of each parameter."""
    digest = hashlib.sha256()
    for name, p in sorted(model.named_parameters()):
        flat = p.detach().reshape(-1)
        sample = flat[:: max(1, len(flat) // 4096)][:4096].float().cpu()
        digest.update(f"{name}{tuple(p.shape)}".encode())
        digest.update(sample.numpy().tobytes())
    return digest.hexdigest()


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """All parameters and persistent buffers by name, in the order of the names; tied ones under each name."""
    results = []
    for prefix, module in model.named_modules(remove_duplicate=False):
        own = {**module._parameters, **module._buffers}
        for leaf, tensor in own.items():
            if tensor is not None and leaf not in module._non_persistent_buffers_set:
                name = f"{prefix}.{leaf}" if prefix else leaf
                results.append((name, _in_memory(name, leaf, tensor, module)))
    return sorted(results, key=lambda pair: pair[0])


def _in_memory(name: str, leaf: str, tensor: Tensor, module: nn.Module) -> Tensor:
    """The tensor itself, also where accelerate keeps it elsewhere and lends it to the module for each forward."""
    if tensor.device.type != "meta":
        return tensor
    hook: Any = getattr(module, "_hf_hook", None)
    for each in getattr(hook, "hooks", (hook,)):
        if getattr(each, "weights_map", None) is not None:
            return each.weights_map[leaf]
    raise InputError(f"The tensor {name!r} of this model has no values: load the model before it is used.")


def _digest(tensor: Tensor) -> tuple[str, bool]:
    """The hash of a tensor's values as float32, and whether all of them are finite."""
    digest, finite = hashlib.sha256(), True
    for piece in tensor.detach().reshape(-1).split(CHUNK):
        values = piece.cpu()
        if values.is_floating_point():
            values = values if values.dtype == torch.float64 else values.float()
            # A sum over NaN or infinity is never finite; over finite values it may overflow, which is checked.
            finite = finite and (bool(values.sum().isfinite()) or bool(values.isfinite().all()))
            values = values.float()
        digest.update(values.contiguous().numpy())
    return digest.hexdigest(), finite


def _settings(config: Any) -> Any:
    """The settings that are not the defaults of the configuration's class."""
    if not hasattr(config, "to_dict"):
        return str(config)
    try:
        defaults = type(config)().to_dict()
    except (TypeError, ValueError, AttributeError):  # a class that asks for arguments has no defaults
        defaults = {}
    return {"model_type": getattr(config, "model_type", ""), **_unlike(config.to_dict(), defaults)}


def _unlike(settings: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for key, value in settings.items():
        default = defaults.get(key)
        if isinstance(value, dict):
            value = _unlike(value, default if isinstance(default, dict) else {}) or default
        if key not in _BOOKKEEPING and value != default:
            kept[key] = value
    return kept


def _tokenizer_digest(tokenizer: Any) -> str:
    """32 hexadecimal digits of all that turns a text or a chat into ids."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        text = backend.to_str()
        # Truncation and padding, which come first, are set by calls of the tokenizer, not by its files.
        rules = text[max(0, text.find('"added_tokens"')) :]
    else:
        rules = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    special = getattr(tokenizer, "special_tokens_map", None)
    whole = [type(tokenizer).__name__, rules, special, getattr(tokenizer, "chat_template", None)]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()[: len(NO_TOKENIZER)]
