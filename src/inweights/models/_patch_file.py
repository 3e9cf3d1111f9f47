"""Patches as files: safetensors, with the fingerprint of the model that they belong to."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from inweights._errors import InputError, shown
from inweights._files import write_atomic
from inweights._read import parse_json
from inweights._safetensors import read_safetensors, read_safetensors_header
from inweights.models._block_patch import BlockPatch
from inweights.models._load import Model
from inweights.models._patch import Patch
from inweights.running import Block, Control
from inweights.theory import Update, not_finite

FORMAT = "inweights-patch-1"
DTYPES = ("F64", "F32", "F16", "BF16")
AGAIN = "make the patch again, or name another file"


def save(patch: Patch, path: Path) -> Path:
    """Writes a patch. The context itself is not in the file, but its effect is: a patch leaks its prompt."""
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
        trust: dict[str, Any] = {"residual": b.residual, "condition": b.condition, "rank": b.rank, "exact": b.exact}
        trust |= {"amplification": b.amplification, "inversion": b.inversion}
        blocks.append({"block": asdict(b.block), "slots": slots, "moved": list(b.moved), **trust})
    about = {"format": FORMAT, "mode": patch.mode, "tokens": patch.tokens, "base": patch.base, "blocks": blocks}
    packed = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    return write_atomic(path, to_bytes(packed, metadata={"inweights": json.dumps(about)}))


def load_patch(path: Path, model: Model) -> Patch:
    """Reads a patch for `model`; anything that does not fit it is refused with one sentence."""
    if not path.is_file():
        raise InputError(f"There is no patch file {str(path)!r}.")
    header = read_safetensors_header(path, "The patch", fix=AGAIN)
    about = header.metadata.get("inweights", "{}")
    # A condition may be infinite.
    values = parse_json(about, f"The description in the patch {str(path)!r}", fix=AGAIN, finite=False)
    if values.get("format") != FORMAT:
        raise InputError(f"{str(path)!r} is a safetensors file, but not a patch of this format ({FORMAT}).")
    if not model.is_base(str(values.get("base"))):
        raise InputError(f"{str(path)!r} was made for other weights, or another dtype, than those of {model.name!r}.")
    odd = [name for name, stored in header.tensors.items() if stored.dtype not in DTYPES]
    if odd:
        raise InputError(f"{str(path)!r} has {shown(odd[0])}, whose numbers are no floats: {AGAIN}.")
    _, tensors = read_safetensors(path, "The patch", fix=AGAIN)
    if broken := not_finite(tensors):
        raise InputError(f"{str(path)!r} has NaN or infinite entries in {broken[0]!r}: make the patch again.")
    try:
        return _patch(values, tensors, model)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        raise InputError(f"{str(path)!r} does not fit the model ({shown(str(error))}): {AGAIN}.") from None


def _patch(values: dict[str, Any], tensors: dict[str, Tensor], model: Model) -> Patch:
    """The patch that a file describes; an error of any kind names what does not fit."""
    mode, tokens = values["mode"], values["tokens"]
    if mode not in ("token", "static", "output") or type(tokens) is not int or tokens < 1:
        raise ValueError(f"mode {mode!r} for {tokens!r} query tokens")
    made = Patch(mode, _blocks(values, tensors, model), tokens, model.fingerprint)
    each = () if mode == "static" else (tokens,)
    for b in made.blocks:
        updates = [u for u in (b.read, *b.added.values()) if u is not None]
        batches = [u.batch for u in updates] + [tuple(t.shape[:-1]) for t in b.moved.values()]
        if any(batch != each for batch in batches):
            raise ValueError(f"the changes of {b.block.name} are not those of {tokens} query tokens")
    for name, value in made.parameters(model, None if mode == "static" else 0).items():
        if value.shape != model.model.get_parameter(name).shape:
            raise ValueError(f"{name} has another shape")
    return made


def _blocks(values: dict[str, Any], tensors: dict[str, Tensor], model: Model) -> tuple[BlockPatch, ...]:
    def tensor(name: str) -> Tensor:
        # Memory of its own: the position of a tensor in the file decides its alignment, and so the order of sums.
        return tensors[name].to(model.device, model.dtype).clone()

    made, known = [], set(model.anatomy.blocks)
    for i, b in enumerate(values["blocks"]):
        given = dict(b["block"])
        for kind in ("inputs", "outputs"):
            given[kind] = tuple(Control(**c) for c in given[kind])
        block = Block(**given)
        if block not in known:  # its names are those of modules and parameters that are changed
            raise ValueError(f"the model has no block {shown(given['name'])} of this kind")
        read = Update(tensor(f"{i}.read.u"), tensor(f"{i}.read.v")) if f"{i}.read.u" in tensors else None
        added = {
            (name, int(expert)): Update(tensor(f"{i}.added.{j}.u"), tensor(f"{i}.added.{j}.v"))
            for j, (name, expert) in enumerate(b["slots"])
        }
        moved = {name: tensor(f"{i}.moved.{j}") for j, name in enumerate(b["moved"])}
        if not {*moved} <= {block.scale, block.shift}:
            raise ValueError(f"{shown([*moved])} are not of the norm of {block.name}")
        trust = (float(b["residual"]), float(b["condition"]), int(b["rank"]), bool(b["exact"]))
        gain = b.get("amplification")  # patches of earlier versions have none
        gain = None if gain is None else float(gain)
        made.append(BlockPatch(block, read, added, moved, *trust, gain, str(b.get("inversion", ""))))
    return tuple(made)
