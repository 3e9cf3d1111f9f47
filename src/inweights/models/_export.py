"""Patches for other programs: a LoRA adapter for PEFT or llama.cpp, or a checkpoint with the changes merged in."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models._load import Model, quiet
from inweights.models._patch import Patch


def portable(patch: Patch) -> str:
    """Why a patch cannot be a LoRA adapter; empty if it can."""
    if patch.mode != "static" and patch.tokens != 1:
        return f"it has its own changes for each of {patch.tokens} query tokens: make it static, or for one token"
    for b in patch.blocks:
        if b.moved:
            return f"{b.block.name} changes the vector {next(iter(b.moved))}, and adapters change matrices only"
        if any(c.experts for c in (*b.block.inputs, *b.block.outputs)):
            return f"{b.block.name} changes experts that are stored together in one tensor"
        if b.block.tail == "head":
            return "it changes the matrix of the logits, which adapters leave alone"
    return ""


def lora(patch: Patch, model: Model, strength: float = 1.0) -> dict[str, tuple[Tensor, Tensor]]:
    """`{module: (A, B)}` with `ΔW = B A`: shapes `(r, in)` and `(out, r)`."""
    why = portable(patch)
    if why:
        raise InputError(f"This patch cannot be written as an adapter: {why}.")
    if not abs(strength) < float("inf"):
        raise InputError(f"`strength` is {strength}, but must be a number.")
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for whole in patch.blocks:
        b = whole if patch.mode == "static" else whole.at(0)
        if b.read is not None:
            for c in b.block.inputs:
                W = model.model.get_parameter(c.name).detach()
                update = b.read.premultiplied(W.mT if c.transposed else W)
                found[c.name.removesuffix(".weight")] = (update.v.mT, strength * update.u)
        for (name, _), update in b.added.items():
            found[name.removesuffix(".weight")] = (update.v.mT, strength * update.u)
    return found


def to_peft(patch: Patch, model: Model, folder: Path, strength: float = 1.0) -> Path:
    """A LoRA adapter folder that `PeftModel.from_pretrained` loads: alpha = rank, no bias, no norms."""
    try:
        from peft import LoraConfig
    except ImportError:
        raise InputError("PEFT adapters need the peft package: pip install 'inweights[peft]'.") from None
    from safetensors.torch import save_file

    factors = lora(patch, model, strength)
    ranks = {name: A.shape[0] for name, (A, _) in factors.items()}
    most = max(ranks.values())
    other = {name: r for name, r in ranks.items() if r != most}
    turned = {c.transposed for b in patch.blocks for c in (*b.block.inputs, *b.block.outputs)}
    config = LoraConfig(
        fan_in_fan_out=turned == {True},  # layers that store the transpose, as GPT-2 does
        r=most, lora_alpha=most, target_modules=sorted(factors), rank_pattern=other, alpha_pattern=other,
        bias="none", task_type="CAUSAL_LM", base_model_name_or_path=model.path or model.name, inference_mode=True,
    )  # fmt: skip
    tensors = {}
    for name, (A, B) in factors.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = A.float().contiguous().cpu().clone()
        tensors[f"base_model.model.{name}.lora_B.weight"] = B.float().contiguous().cpu().clone()

    def write(half: Path) -> None:
        config.save_pretrained(str(half))
        save_file(tensors, half / "adapter_model.safetensors", metadata={"format": "pt"})

    return _whole(folder, write)


def to_gguf(patch: Patch, model: Model, path: Path, strength: float = 1.0) -> Path:
    """A LoRA adapter for llama.cpp, for the GGUF of the same base model."""
    try:
        import gguf
    except ImportError:
        raise InputError("GGUF adapters need the gguf package: pip install 'inweights[gguf]'.") from None
    config: Any = model.model.config
    known = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    if config.model_type not in known:
        raise InputError(f"The GGUF format has no name for models of type {config.model_type!r}.")
    factors = lora(patch, model, strength)
    names = gguf.get_tensor_name_map(known[config.model_type], len(model.anatomy.blocks))
    theirs = {name: names.get_name(name) for name in factors}
    missing = [name for name, found in theirs.items() if found is None]
    if missing:
        raise InputError(f"The GGUF format has no name for {missing[0]!r} of this model.")
    alpha = max(A.shape[0] for A, _ in factors.values())
    half = path.with_name(f".{path.name}.half")
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


def merged(patch: Patch, model: Model, folder: Path) -> Path:
    """A checkpoint with the changes in its weights, and the tokenizer beside it."""
    if patch.mode != "static" and patch.tokens != 1:
        raise InputError(f"This patch cannot be merged: it has its own changes for {patch.tokens} query tokens.")
    net: Any = model.model

    def write(half: Path) -> None:
        with torch.no_grad(), patch.applied(model), quiet():
            net.save_pretrained(half)
        if model.tokenizer is not None:
            model.tokenizer.save_pretrained(half)

    return _whole(folder, write)


def _whole(folder: Path, write: Any) -> Path:
    """A folder that is there whole or not at all."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"--out is the folder {str(folder)!r}, which is not empty: name a new one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        write(half)
        half.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        half.replace(folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return folder
