"""Patches as files: safetensors, with the fingerprint of the model that they belong to."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights._files import write_atomic
from inweights.models._block import Block, Control
from inweights.models._block_patch import BlockPatch
from inweights.models._load import Model
from inweights.models._patch import Patch
from inweights.theory import Update

FORMAT = "inweights-patch-1"


def save(patch: Patch, path: Path) -> Path:
    """Writes a patch; the context itself is not in the file, but what it does is: a patch leaks its prompt."""
    from safetensors.torch import save as to_bytes

    tensors: dict[str, Tensor] = {}
    blocks = []
    for i, b in enumerate(patch.blocks):
        if b.read is not None:
            tensors[f"{i}.read.u"], tensors[f"{i}.read.v"] = b.read.factors
        slots = []
        for j, ((name, expert), update) in enumerate(b.added.items()):
            tensors[f"{i}.added.{j}.u"], tensors[f"{i}.added.{j}.v"] = update.factors
            slots.append([name, expert])
        for j, (_, delta) in enumerate(b.moved.items()):
            tensors[f"{i}.moved.{j}"] = delta
        trust = {"residual": b.residual, "condition": b.condition, "rank": b.rank, "exact": b.exact}
        blocks.append({"block": asdict(b.block), "slots": slots, "moved": list(b.moved), **trust})
    about = {"format": FORMAT, "mode": patch.mode, "tokens": patch.tokens, "base": patch.base, "blocks": blocks}
    packed = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    return write_atomic(path, to_bytes(packed, metadata={"inweights": json.dumps(about)}))


def load_patch(path: Path, model: Model) -> Patch:
    """Reads a patch for `model`; anything that does not fit it is refused with one sentence."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"There is no patch file {str(path)!r}.")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("inweights", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} is not a whole patch file: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{str(path)!r} is a safetensors file, but not a patch of this format ({FORMAT}).")
    if not model.is_base(str(about.get("base"))):
        raise InputError(f"{str(path)!r} was made for other weights, or another dtype, than those of {model.name!r}.")
    broken = [name for name, t in tensors.items() if not bool(torch.isfinite(t).all())]
    if broken:
        raise InputError(f"{str(path)!r} has NaN or infinite entries in {broken[0]!r}: make the patch again.")
    try:
        made = Patch(about["mode"], _blocks(about, tensors, model), int(about["tokens"]), model.fingerprint)
        for name, value in made.parameters(model, 0 if made.mode != "static" else None).items():
            if value.shape != model.model.get_parameter(name).shape:
                raise ValueError(f"{name} has another shape")
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        raise InputError(f"{str(path)!r} does not fit the model: {error}") from None
    return made


def _blocks(about: dict[str, Any], tensors: dict[str, Tensor], model: Model) -> tuple[BlockPatch, ...]:
    def tensor(name: str) -> Tensor:
        return tensors[name].to(model.device, model.dtype)

    made = []
    for i, b in enumerate(about["blocks"]):
        said = dict(b["block"])
        for kind in ("inputs", "outputs"):
            said[kind] = tuple(Control(**c) for c in said[kind])
        read = Update(tensor(f"{i}.read.u"), tensor(f"{i}.read.v")) if f"{i}.read.u" in tensors else None
        added = {
            (name, int(expert)): Update(tensor(f"{i}.added.{j}.u"), tensor(f"{i}.added.{j}.v"))
            for j, (name, expert) in enumerate(b["slots"])
        }
        moved = {name: tensor(f"{i}.moved.{j}") for j, name in enumerate(b["moved"])}
        trust = (float(b["residual"]), float(b["condition"]), int(b["rank"]), bool(b["exact"]))
        made.append(BlockPatch(Block(**said), read, added, moved, *trust))
    return tuple(made)
