"""Adapters for other programs: PEFT folders, GGUF files, merged checkpoints; each written completely or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights._files import beside as place_beside
from inweights.models._model import Model
from inweights.models._quiet import quiet

Factors = dict[str, tuple[Tensor, Tensor]]
"""`{module: (A, B)}` with `ΔW = B A`: shapes `(r, in)` and `(out, r)`."""


def write_peft(factors: Factors, model: Model, folder: Path, beside: Callable[[Path], None] = lambda _: None) -> Path:
    """A LoRA adapter folder that `PeftModel.from_pretrained` loads: alpha = rank, no bias, no norms.

    `beside` writes further files into the folder before it gets its final name.
    """
    try:
        from peft import LoraConfig
    except ImportError:
        raise InputError("PEFT adapters need the peft package: pip install 'inweights[peft]'.") from None
    from safetensors.torch import save_file

    ranks = {name: A.shape[0] for name, (A, _) in factors.items()}
    most = max(ranks.values())
    other = {name: r for name, r in ranks.items() if r != most}
    config = LoraConfig(
        fan_in_fan_out=all(is_transposed(model, name) for name in factors),
        r=most, lora_alpha=most, target_modules=sorted(factors), rank_pattern=other, alpha_pattern=other,
        bias="none", task_type="CAUSAL_LM", inference_mode=True,
        base_model_name_or_path=model.source or None,
        revision=model.revision or None,
    )  # fmt: skip
    tensors = {}
    for name, (A, B) in factors.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = A.float().contiguous().cpu().clone()
        tensors[f"base_model.model.{name}.lora_B.weight"] = B.float().contiguous().cpu().clone()

    def write(half: Path) -> None:
        config.save_pretrained(str(half))
        save_file(tensors, half / "adapter_model.safetensors", metadata={"format": "pt"})
        beside(half)

    return whole(folder, write)


def is_transposed(model: Model, name: str) -> bool:
    """Whether a layer stores its matrix as `(in, out)`, as GPT-2's do."""
    module = model.model.get_submodule(name)
    return not isinstance(module, torch.nn.Linear)


def write_merged(changed: AbstractContextManager[Any], model: Model, folder: Path) -> Path:
    """A checkpoint of the model as it is while `changed` is active, and the tokenizer beside it."""
    net: Any = model.model

    def write(half: Path) -> None:
        with torch.no_grad(), changed, quiet():
            net.save_pretrained(half)
        if model.tokenizer is not None:
            model.tokenizer.save_pretrained(half)

    return whole(folder, write)


def whole(folder: Path, write: Callable[[Path], None]) -> Path:
    """A folder that is written completely or not at all."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"--out is the folder {str(folder)!r}, which is not empty: name a new one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = place_beside(folder)
    half.mkdir()
    try:
        write(half)
        for file in (p for p in half.rglob("*") if p.is_file()):
            file.chmod(half.stat().st_mode & 0o666)  # safetensors makes files that only the user can read
        if folder.exists():
            folder.rmdir()
        half.replace(folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return folder
