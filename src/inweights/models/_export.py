"""Patches for other programs: a LoRA adapter for PEFT or llama.cpp, or a checkpoint with the changes merged in."""

from __future__ import annotations

from pathlib import Path

from inweights._errors import InputError
from inweights.models._adapter import Factors, write_merged, write_peft
from inweights.models._gguf import write_gguf
from inweights.models._load import Model
from inweights.models._patch import Patch


def portable(patch: Patch) -> str:
    """Why a patch cannot be a LoRA adapter; empty if it can."""
    if patch.mode != "static" and patch.tokens != 1:
        return (
            f"it has its own changes for each of {patch.tokens} query tokens: make it with `inweights patch --static`, "
            "or for one token"
        )
    for b in patch.blocks:
        if b.moved:
            return f"{b.block.name} changes the vector {next(iter(b.moved))}, and adapters change matrices only"
        if any(c.experts for c in (*b.block.inputs, *b.block.outputs)):
            return f"{b.block.name} changes experts that are stored together in one tensor"
        if b.block.tail == "head":
            return "it changes the matrix of the logits, which adapters leave alone"
    return ""


def lora(patch: Patch, model: Model, strength: float = 1.0) -> Factors:
    """`{module: (A, B)}` with `ΔW = B A`: shapes `(r, in)` and `(out, r)`."""
    why = portable(patch)
    if why:
        raise InputError(f"This patch cannot be written as an adapter: {why}.")
    if not abs(strength) < float("inf"):
        raise InputError(f"`strength` is {strength}, but must be a number.")
    updates = patch.changes(model).updates
    return {u.name.removesuffix(".weight"): (u.v.mT, strength * u.u) for u in updates}


def to_peft(patch: Patch, model: Model, folder: Path, strength: float = 1.0) -> Path:
    """A LoRA adapter folder that `PeftModel.from_pretrained` loads: alpha = rank, no bias, no norms."""
    return write_peft(lora(patch, model, strength), model, folder)


def to_gguf(patch: Patch, model: Model, path: Path, strength: float = 1.0) -> Path:
    """A LoRA adapter for llama.cpp, for the GGUF of the same base model."""
    return write_gguf(lora(patch, model, strength), model, path)


def merged(patch: Patch, model: Model, folder: Path) -> Path:
    """A checkpoint with the changes in its weights, and the tokenizer beside it."""
    if patch.mode != "static" and patch.tokens != 1:
        raise InputError(f"This patch cannot be merged: it has its own changes for {patch.tokens} query tokens.")
    return write_merged(patch.applied(model), model, folder)
