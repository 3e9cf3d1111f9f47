"""What adapters are to other programs: PEFT folders, GGUF files, merged checkpoints; whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models._load import Model, quiet

Factors = dict[str, tuple[Tensor, Tensor]]
"""`{module: (A, B)}` with `ΔW = B A`: shapes `(r, in)` and `(out, r)`."""


def write_peft(factors: Factors, model: Model, folder: Path, beside: Callable[[Path], None] = lambda _: None) -> Path:
    """A LoRA adapter folder that `PeftModel.from_pretrained` loads: alpha = rank, no bias, no norms.

    `beside` writes further files into the folder before it is there.
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
        bias="none", task_type="CAUSAL_LM", base_model_name_or_path=model.path or model.name, inference_mode=True,
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


def write_gguf(factors: Factors, model: Model, path: Path) -> Path:
    """A LoRA adapter for llama.cpp, for the GGUF of the same base model."""
    try:
        import gguf
    except ImportError:
        raise InputError("GGUF adapters need the gguf package: pip install 'inweights[gguf]'.") from None
    config: Any = model.model.config
    known = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    if config.model_type not in known:
        raise InputError(f"The GGUF format has no name for models of type {config.model_type!r}.")
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
