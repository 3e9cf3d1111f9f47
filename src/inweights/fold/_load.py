"""`load_fold`: an adapter folder of PEFT, ours or foreign, as a `Fold`; everything is checked before it is used."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError, Problems
from inweights.fold._card import FILE, Card
from inweights.fold._fold import Fold, matrices
from inweights.models import Model
from inweights.theory import Update

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

_NAME = re.compile(r"base_model\.model\.(\w+(?:\.\w+)*)\.lora_([AB])\.weight")
_DTYPES = {"F64", "F32", "F16", "BF16"}
_HARMLESS = {
    "task_type", "peft_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode",
    "r", "target_modules", "exclude_modules", "lora_alpha", "lora_dropout", "fan_in_fan_out", "bias", "use_rslora",
    "init_lora_weights", "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern", "megatron_config",
    "megatron_core", "loftq_config", "eva_config", "corda_config", "lora_ga_config", "qalora_group_size",
    "runtime_config",
}  # fmt: skip
"""What a LoRA configuration may set without making its layers anything else than `W + scale · B A`."""
_MEANING = {
    "use_dora": "it is a DoRA adapter, which also rescales the weights",
    "modules_to_save": "it brings whole modules of its own (modules_to_save)",
    "lora_bias": "its layers have biases (lora_bias)",
}
_KEPT_BASE = (None, True, False, "gaussian", "eva", "orthogonal")
"""Ways to start the factors that leave the base model as it is; PiSSA, OLoRA and their kin change it."""


def load_fold(folder: str | Path, model: Model) -> Fold:
    """Reads a LoRA adapter for `model`, with its scaling multiplied in; refuses it with all that is wrong.

    Only `adapter_config.json`, `adapter_model.safetensors` and, where it is there, `inweights.json` are read:
    nothing that could run code. A foreign adapter says nothing checkable about its base beyond names and shapes.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no adapter folder {str(folder)!r}.")
    problems = Problems()
    config = _json_of(folder, CONFIG, problems)
    if config is not None:
        _check_config(config, problems)
    card = _card(folder, model, problems)
    tensors = _tensors(folder, model, problems)
    problems.stop()
    assert config is not None
    updates = _updates(config, tensors, model, problems)
    problems.stop()
    if card is None:
        base = config.get("base_model_name_or_path")
        most = max(update.columns for update in updates.values())
        card = Card(base=base if isinstance(base, str) else "", method="foreign adapter", rank=most, versions={})
    return Fold(updates, card, model)


def _file(folder: Path, name: str, problems: Problems, most: int) -> Path | None:
    """A file of the folder itself that is not too large."""
    path = folder / name
    if path.is_symlink() and not _stays(path, folder):
        problems.unless(False, f"{name} is a link that leaves the folder: copy the file itself there.")
        return None
    if not problems.unless(path.is_file(), f"The folder {str(folder)!r} has no {name}."):
        return None
    size = path.stat().st_size
    fits = problems.unless(size <= most, f"{name} is too large to be one of this model's: {size} bytes, above {most}.")
    return path if fits else None


def _stays(link: Path, folder: Path) -> bool:
    try:
        return link.resolve().parent == folder.resolve()
    except (OSError, RuntimeError):  # a link to itself
        return False


def _json_of(folder: Path, name: str, problems: Problems) -> dict[str, Any] | None:
    path = _file(folder, name, problems, 1 << 24)
    if path is None:
        return None
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        said = None
    return said if problems.unless(isinstance(said, dict), f"{name} is not readable as a JSON object.") else None


def _card(folder: Path, model: Model, problems: Problems) -> Card | None:
    if not (folder / FILE).exists() and not (folder / FILE).is_symlink():
        return None
    path = _file(folder, FILE, problems, 1 << 24)
    if path is None:
        return None
    try:
        card = Card.from_json(path.read_text(encoding="utf-8"))
    except (InputError, OSError, UnicodeDecodeError) as error:
        said = str(error) if isinstance(error, InputError) else f"{FILE} is not readable as text."
        problems.unless(False, said)
        return None
    problems.unless(
        not card.base_fingerprint or model.is_base(card.base_fingerprint),
        f"The adapter was made for other weights, or another dtype, than those of {model.name!r}.",
    )
    # Adapters of the first version have a fingerprint that only the model itself can be compared with.
    return replace(card, base_fingerprint=model.fingerprint) if card.base_fingerprint else card


def _check_config(config: dict[str, Any], problems: Problems) -> None:
    kind = config.get("peft_type")
    if not problems.unless(kind == "LORA", f"{CONFIG} is of peft_type {kind!r}, but only LORA can be read."):
        return
    bias = config.get("bias", "none")
    problems.unless(bias in ("none", None), f"{CONFIG} cannot be read: it changes biases (bias is {bias!r}).")
    # A setting that is not known to be harmless may be of a later PEFT, and mean anything.
    for key in sorted(k for k, value in config.items() if value and k not in _HARMLESS):
        problems.unless(False, f"{CONFIG} cannot be read: {_MEANING.get(key, f'it sets {key!r}')}.")
    start = config.get("init_lora_weights")
    known = any(start is way or start == way for way in _KEPT_BASE)
    problems.unless(known, f"{CONFIG} cannot be read: {start!r} changes the base weights (init_lora_weights).")
    _positive(config, "r", problems)
    _positive(config, "lora_alpha", problems)
    for name in ("rank_pattern", "alpha_pattern"):
        patterns = config.get(name) or {}
        if problems.unless(isinstance(patterns, dict), f"{CONFIG} has a {name} that is no object."):
            for key in patterns:
                problems.unless(_is_plain(key), f"{CONFIG} has a {name} with {key!r}, which is not a plain pattern.")
                _positive(patterns, key, problems)


def _positive(said: dict[str, Any], key: str, problems: Problems) -> None:
    value = said.get(key)
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    problems.unless(fits, f"{CONFIG} has {value!r} for {key!r}, but that must be a number above 0.")


def _is_plain(pattern: str) -> bool:
    """Whether a pattern of PEFT, which is a regular expression, is valid and cannot take for ever to match."""
    if len(pattern) > 200 or re.search(r"[^\w.^$\\*+|\[\]-]", pattern) or sum(map(pattern.count, "*+")) > 3:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _tensors(folder: Path, model: Model, problems: Problems) -> dict[str, dict[str, Tensor]]:
    """`{module: {"A": (r, in), "B": (out, r)}}`; names and shapes are checked before anything is read."""
    from safetensors import SafetensorError, safe_open

    if not (folder / WEIGHTS).exists() and (folder / "adapter_model.bin").exists():
        problems.unless(False, f"There are only pickled weights, which can run code when opened, and no {WEIGHTS}.")
        return {}
    most = 8 * sum(p.numel() for p in model.model.parameters()) + (1 << 20)  # the whole model in float64
    path = _file(folder, WEIGHTS, problems, most)
    if path is None:
        return {}
    known, found = matrices(model), dict[str, dict[str, Tensor]]()
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (a safetensors file is no dict: it has keys, but cannot be iterated)
                match = _NAME.fullmatch(name)
                if not problems.unless(match is not None, f"{WEIGHTS} has {name!r}, which is no factor of a layer."):
                    continue
                assert match is not None
                module, side = match.groups()
                if not problems.unless(module in known, f"{WEIGHTS} has {name!r}, but the model has no such matrix."):
                    continue
                entry = file.get_slice(name)
                kind, shape, size = entry.get_dtype(), tuple(entry.get_shape()), known[module][side == "A"]
                fits = len(shape) == 2 and shape[side == "A"] == size and min(shape) > 0
                want = f"(r, {size})" if side == "A" else f"({size}, r)"
                problems.unless(kind in _DTYPES, f"{WEIGHTS} has {name!r} as {kind}, which is no plain float.")
                problems.unless(fits, f"{WEIGHTS} has {name!r} of shape {shape}, but it must be {want}.")
                if fits and kind in _DTYPES:
                    found.setdefault(module, {})[side] = file.get_tensor(name).float()
                    finite = bool(torch.isfinite(found[module][side]).all())
                    problems.unless(finite, f"{WEIGHTS} has NaN or infinite entries in {name!r}.")
            sides = {m.groups() for m in map(_NAME.fullmatch, file.keys()) if m}
    except (SafetensorError, OSError, ValueError) as error:
        problems.unless(False, f"{WEIGHTS} is not a whole safetensors file: {error}")
        return {}
    problems.unless(bool(sides), f"{WEIGHTS} holds no factors at all.")
    for module, side in sorted(sides):
        other = "B" if side == "A" else "A"
        problems.unless((module, other) in sides, f"{WEIGHTS} has lora_{side} of {module!r}, but no lora_{other}.")
    return found


def _updates(
    config: dict[str, Any], tensors: dict[str, dict[str, Tensor]], model: Model, problems: Problems
) -> dict[str, Update]:
    """The updates with PEFT's scaling, `alpha / r` or `alpha / √r`, multiplied in."""
    found = {}
    for module, sides in tensors.items():
        A, B = sides["A"], sides["B"]
        rank, said = A.shape[0], _said(config, "rank_pattern", "r", module)
        problems.unless(
            B.shape[1] == rank == said,
            f"{WEIGHTS} has factors of ranks {rank} and {B.shape[1]} for {module!r}, but {CONFIG} says {said}.",
        )
        scale = _said(config, "alpha_pattern", "lora_alpha", module) / (
            math.sqrt(rank) if config.get("use_rslora") else rank
        )
        scaled = B * scale
        problems.unless(bool(torch.isfinite(scaled).all()), f"The scaling of {module!r} makes it infinite.")
        if B.shape[1] == rank:
            name = f"{module}.weight"
            found[name] = Update(scaled.to(model.device), A.mT.contiguous().to(model.device), name)
    return found


def _said(config: dict[str, Any], patterns: str, otherwise: str, module: str) -> float:
    """What the configuration says for a module: the first pattern that matches as PEFT matches, or the default."""
    for pattern, value in (config.get(patterns) or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return float(value)
    return float(config[otherwise])
