"""Models with every tensor of their checkpoint: transformers itself draws random values for missing tensors."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inweights._errors import InputError, Problems

SHOWN = 3
"""The most names that a message lists; further ones are only counted."""

# Masks and frequencies that old checkpoints still carry and that the model computes by itself.
_COMPUTED = re.compile(r"(\.|^)(masked_bias|inv_freq|position_ids|num_batches_tracked)$|(attn|attention)\.bias$")


def load_complete(spec: str, folder: Path, stored: int, **options: Any) -> Any:
    """The model of a folder, from the files of that folder alone, or an error that names what is missing.

    `stored` is how many values the checkpoint has; `options` are those of transformers; messages call the model `spec`.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    options |= {"trust_remote_code": False, "local_files_only": True}
    where = {name: value for name, value in options.items() if name in ("gguf_file", "local_files_only")}
    config: Any = AutoConfig.from_pretrained(str(folder), trust_remote_code=False, **where)
    _require_enough(spec, config, stored)
    # Where shapes differ, transformers would stop without naming the tensors.
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    loaded: Any = AutoModelForCausalLM.from_pretrained(str(folder), **options)
    model, report = loaded
    require_complete(spec, model, report)
    return model


def _require_enough(spec: str, config: Any, stored: int) -> None:
    """Refuses a checkpoint with less than half the values that its configuration needs.

    Memory for missing tensors would be filled before any check: a configuration without its weights, or with wrong
    sizes, could take all memory.
    """
    from transformers import AutoModelForCausalLM

    if getattr(config, "quantization_config", None):  # packed: several values in one
        return
    with torch.device("meta"):
        needed = sum(p.numel() for p in AutoModelForCausalLM.from_config(config, trust_remote_code=False).parameters())
    if 2 * stored < needed:
        raise InputError(
            f"`model` {spec!r} holds {stored:,} values, but its configuration asks for {needed:,}: get config.json and "
            "all of the weights from one source."
        )


def require_complete(spec: str, model: nn.Module, report: dict[str, Any]) -> None:
    """Refuses a model with tensors that are missing, have another shape, or are left over in a layer of the model.

    `report` is what transformers returns for `output_loading_info`; it has already left out tied tensors and those
    that a family declares unnecessary. Left-over tensors of parts that the model does not have at all (an image
    encoder, another head) are no fault; left over inside its own layers they mean that it computes something else.
    """
    problems = Problems()
    missing = sorted(report["missing_keys"])
    problems.unless(
        not missing,
        f"`model` {spec!r} lacks {listed(missing)}, which would be random: get the whole checkpoint.",
    )
    shapes = [f"{name} {tuple(has)} instead of {tuple(needs)}" for name, has, needs in report["mismatched_keys"]]
    problems.unless(
        not shapes,
        f"`model` {spec!r} has {listed(sorted(shapes))}, a shape that its configuration does not give: "
        "get config.json and the weights from one source.",
    )
    unused = sorted(name for name in report["unexpected_keys"] if _is_inside(model, name))
    problems.unless(
        not unused,
        f"`model` {spec!r} has {listed(unused)} in its layers, which its configuration leaves unused: "
        "get config.json and the weights from one source.",
    )
    problems.stop()


def listed(names: Collection[str]) -> str:
    """`1 tensor (a)`, `5 tensors (a, b, c, …)`."""
    shown = ", ".join([*list(names)[:SHOWN], *(["…"] if len(names) > SHOWN else [])])
    return f"{len(names)} tensor{'' if len(names) == 1 else 's'} ({shown})"


def _is_inside(model: nn.Module, name: str) -> bool:
    """Whether a tensor of this name would belong to a module that the model has, or to its list of blocks."""
    if _COMPUTED.search(name):
        return False
    module, (*path, leaf) = model, name.split(".")
    for part in path:
        if isinstance(module, nn.ModuleList):
            break
        child = module._modules.get(part)
        if child is None:
            return False
        module = child
    return leaf not in module._buffers
