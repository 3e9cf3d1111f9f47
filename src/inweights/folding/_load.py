"""`load_fold`: an adapter folder of PEFT, ours or foreign, as a `Fold`; everything is checked before it is used."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError, Problems, shown
from inweights._read import read_json
from inweights._safetensors import Header, read_safetensors_header
from inweights.folding._card import CARD_LIMIT, FILE, Card
from inweights.folding._fold import Fold, matrices, of_another_model
from inweights.folding._patterns import MAX_MATCHES, Values, check_patterns, check_positive
from inweights.models import Model, as_model
from inweights.theory import Update, not_finite

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
AGAIN = "make the adapter again, or name another folder"

_NAME = re.compile(r"base_model\.model\.(\w+(?:\.\w+)*)\.lora_([AB])\.weight")
_DTYPES = {"F64", "F32", "F16", "BF16"}
_HARMLESS = {
    "task_type", "peft_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode",
    "r", "target_modules", "exclude_modules", "lora_alpha", "lora_dropout", "fan_in_fan_out", "bias", "use_rslora",
    "init_lora_weights", "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern", "megatron_config",
    "megatron_core", "loftq_config", "eva_config", "corda_config", "lora_ga_config", "qalora_group_size",
    "runtime_config",
}  # fmt: skip
"""The settings of a LoRA configuration with which its layers are still `W + scale · B A`."""
_MEANING = {
    "use_dora": "it is a DoRA adapter, which also rescales the weights",
    "modules_to_save": "it brings whole modules of its own (modules_to_save)",
    "lora_bias": "its layers have biases (lora_bias)",
}
_KEPT_BASE = (None, True, False, "gaussian", "eva", "orthogonal")
"""Ways to start the factors that leave the base model as it is; PiSSA, OLoRA and their kin change it."""


def load_fold(folder: str | Path, model: Model | nn.Module, *, tokenizer: Any = None) -> Fold:
    """Reads a LoRA adapter for `model`, with its scaling multiplied in; refuses it with all that is wrong.

    `tokenizer` is that of a transformers model that was not loaded by `iw.load`; only `evaluate` needs it.

    Only `adapter_config.json`, `adapter_model.safetensors` and, if present, `inweights.json` are read:
    nothing that could run code. Of the base of a foreign adapter only names and shapes can be checked.

    **Example:**

    ```python
    import tempfile
    import inweights as iw

    m = iw.load("smollm2")
    queries = ["Who are you?", "What is a cat?"]
    fold = iw.fold(m, "Answer in French.", calibration=queries, method="vector")
    with tempfile.TemporaryDirectory() as folder:
        again = iw.load_fold(fold.save_pretrained(f"{folder}/adapter"), m)
    print(again.rank == fold.rank)
    # prints True
    ```
    """
    folder, model = Path(folder), as_model(model, tokenizer)
    if not folder.is_dir():
        raise InputError(f"There is no adapter folder {str(folder)!r}.")
    problems = Problems()
    known = matrices(model)
    config = _config(folder, problems)
    if config is not None:
        _check_config(config, len(known), problems)
    card = _card(folder, problems)
    same = card is None or not card.base_fingerprint or model.is_base(card.base_fingerprint)
    made_for = f": give the model that it was made for, {card.base!r}" if card is not None and card.base else ""
    problems.unless(
        same, f"The adapter was made for other weights, or another dtype, than those of {model.name!r}{made_for}."
    )
    tensors = _tensors(folder, known, model, problems, named=same)
    problems.stop()
    assert config is not None
    updates = _updates(config, tensors, model, problems)
    problems.stop()
    if card is not None and card.base_fingerprint:
        # Adapters of the first version have a fingerprint that only the model itself can be compared with.
        card = replace(card, base_fingerprint=model.fingerprint)
    if card is None:
        base = config.get("base_model_name_or_path")
        most = max(update.columns for update in updates.values())
        card = Card(base=base if isinstance(base, str) else "", method="foreign adapter", rank=most, versions={})
    return Fold(updates, card, model)


def _file(folder: Path, name: str, problems: Problems) -> Path | None:
    """A file of the folder itself."""
    path = folder / name
    if path.is_symlink() and not _stays(path, folder):
        problems.unless(False, f"{name} is a link that leaves the folder: copy the file itself there.")
        return None
    return path if problems.unless(path.is_file(), f"The folder {str(folder)!r} has no {name}.") else None


def _stays(link: Path, folder: Path) -> bool:
    try:
        return link.resolve().parent == folder.resolve()
    except (OSError, RuntimeError):  # a link to itself
        return False


def _config(folder: Path, problems: Problems) -> dict[str, Any] | None:
    path = _file(folder, CONFIG, problems)
    try:
        return None if path is None else read_json(path, "The adapter configuration", fix=AGAIN)
    except InputError as error:
        problems.unless(False, str(error))
        return None


def _card(folder: Path, problems: Problems) -> Card | None:
    if not (folder / FILE).exists() and not (folder / FILE).is_symlink():
        return None
    path = _file(folder, FILE, problems)
    if path is None:
        return None
    try:
        return Card.of(read_json(path, "The card", limit=CARD_LIMIT, fix=AGAIN))
    except InputError as error:
        problems.unless(False, str(error))
        return None


def _check_config(config: dict[str, Any], known: int, problems: Problems) -> None:
    kind = config.get("peft_type")
    if not problems.unless(kind == "LORA", f"{CONFIG} is of peft_type {shown(kind)}, but only LORA can be read."):
        return
    bias = config.get("bias", "none")
    problems.unless(bias in ("none", None), f"{CONFIG} cannot be read: it changes biases (bias is {shown(bias)}).")
    # An unknown setting may be of a later PEFT and change what the layers compute.
    for key in sorted(k for k, value in config.items() if value and k not in _HARMLESS):
        problems.unless(False, f"{CONFIG} cannot be read: {_MEANING.get(key, f'it sets {shown(key)}')}.")
    start = config.get("init_lora_weights")
    unchanged = any(start is way or start == way for way in _KEPT_BASE)
    problems.unless(unchanged, f"{CONFIG} cannot be read: {shown(start)} changes the base weights (init_lora_weights).")
    rooted = config.get("use_rslora")
    problems.unless(
        rooted in (None, True, False), f"{CONFIG} has {shown(rooted)} for 'use_rslora', but that must be true or false."
    )
    check_positive(config, "r", CONFIG, problems)
    check_positive(config, "lora_alpha", CONFIG, problems)
    for name in ("rank_pattern", "alpha_pattern"):
        check_patterns(config, name, known, CONFIG, problems)


def _tensors(
    folder: Path, known: dict[str, tuple[int, int]], model: Model, problems: Problems, *, named: bool
) -> dict[str, dict[str, Tensor]]:
    """`{module: {"A": (r, in), "B": (out, r)}}`; names and shapes are checked before anything is read.

    Many that do not fit are those of another model, and `named` if that is still to be reported."""
    from safetensors import SafetensorError, safe_open

    if not (folder / WEIGHTS).exists() and (folder / "adapter_model.bin").exists():
        problems.unless(False, f"There are only pickled weights, which can run code when opened, and no {WEIGHTS}.")
        return {}
    path = _file(folder, WEIGHTS, problems)
    if path is None:
        return {}
    results: dict[str, dict[str, Tensor]] = {}
    try:
        # No adapter is larger than the whole model in float64, and the header.
        model_bytes = 8 * sum(p.numel() for p in model.model.parameters())
        header = read_safetensors_header(path, "The adapter", limit=model_bytes + (1 << 20), fix=AGAIN)
        strange = _strangers(header, known)
        if len(strange) > 1:
            count = len({m[1] for m in map(_NAME.fullmatch, header.tensors) if m})
            problems.unless(not named, of_another_model(len(strange), count, model))
            return {}
        with safe_open(path, framework="pt") as file:
            for name, module, side in _factors(header, known, problems):
                results.setdefault(module, {})[side] = factor = file.get_tensor(name).float()
                problems.unless(not not_finite({name: factor}), f"{WEIGHTS} has NaN or infinite entries in {name!r}.")
    except InputError as error:
        problems.unless(False, str(error))
        return {}
    except (SafetensorError, OSError) as error:
        problems.unless(False, f"{WEIGHTS} is not a whole safetensors file ({error}): {AGAIN}.")
        return {}
    return results


def _strangers(header: Header, known: dict[str, tuple[int, int]]) -> set[str]:
    """The modules that the model has no matrix for, or one of another shape."""
    results = set()
    for name, stored in header.tensors.items():
        if match := _NAME.fullmatch(name):
            module, side = match.groups()
            size = known.get(module, (0, 0))[side == "A"]
            if len(stored.shape) == 2 and stored.shape[side == "A"] != size:
                results.add(module)
    return results


def _factors(header: Header, known: dict[str, tuple[int, int]], problems: Problems) -> Iterator[tuple[str, str, str]]:
    """The names of the factors that fit the model, with their module and whether they are A or B."""
    sides = set()
    for name, stored in header.tensors.items():
        match = _NAME.fullmatch(name)
        if not match:
            problems.unless(False, f"{WEIGHTS} has {shown(name)}, which is no factor of a layer.")
            continue
        module, side = match.groups()
        sides.add((module, side))
        if not problems.unless(module in known, f"{WEIGHTS} has {shown(name)}, but the model has no such matrix."):
            continue
        shape, size = stored.shape, known[module][side == "A"]
        fits = len(shape) == 2 and shape[side == "A"] == size and min(shape) > 0
        want = f"(r, {size})" if side == "A" else f"({size}, r)"
        plain = problems.unless(
            stored.dtype in _DTYPES, f"{WEIGHTS} has {name!r} as {stored.dtype}, which is no plain float."
        )
        problems.unless(fits, f"{WEIGHTS} has {name!r} of shape {shown(shape)}, but it must be {want}.")
        if fits and plain:
            yield name, module, side
    problems.unless(bool(sides), f"{WEIGHTS} holds no factors at all.")
    for module, side in sorted(sides):
        other = "B" if side == "A" else "A"
        problems.unless((module, other) in sides, f"{WEIGHTS} has lora_{side} of {module!r}, but no lora_{other}.")


def _updates(
    config: dict[str, Any], tensors: dict[str, dict[str, Tensor]], model: Model, problems: Problems
) -> dict[str, Update]:
    """The updates with PEFT's scaling, `alpha / r` or `alpha / √r`, multiplied in."""
    results: dict[str, Update] = {}
    ranks, alphas = Values(config, "rank_pattern", "r"), Values(config, "alpha_pattern", "lora_alpha")
    matches = (len(ranks) + len(alphas)) * len(tensors)
    if not problems.unless(
        matches <= MAX_MATCHES, f"{CONFIG} has too many patterns for {len(tensors)} layers: name each layer once."
    ):
        return results
    for module, sides in tensors.items():
        A, B = sides["A"], sides["B"]
        rank, given = A.shape[0], ranks.of(module)
        problems.unless(
            B.shape[1] == rank == given,
            f"{WEIGHTS} has factors of ranks {rank} and {B.shape[1]} for {module!r}, but {CONFIG} says {given:g}.",
        )
        scale = alphas.of(module) / (math.sqrt(rank) if config.get("use_rslora") else rank)
        scaled = B * scale
        problems.unless(bool(torch.isfinite(scaled).all()), f"The scaling of {module!r} makes it infinite.")
        if B.shape[1] == rank:
            name = f"{module}.weight"
            results[name] = Update(scaled.to(model.device), A.mT.contiguous().to(model.device), name)
    return results
