"""`Way`: a kind of gradient descent: which parameters move, by which optimiser, in what batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from inweights._compared import ABOUT
from inweights._errors import InputError, unknown
from inweights.models import Model

Moved = Literal["all", "value-middle", "value-deep", "mlp", "blocks", "lora"]
RATES = (1e-5, 5e-5, 1e-4, 5e-4)
VALUES = ("v_proj.weight", "value.weight", "v_lin.weight", "wv.weight")
"""How families call the matrix that makes values, where it stands alone."""


@dataclass(frozen=True)
class Way:
    """A kind of gradient descent.

    - `moved`: all parameters; the value matrix of one layer, `⌊L/2⌋` or `L − 2`; the matrices that read the MLP's
      input, where the theorem puts the update; all parameters of the blocks; or the factors of a LoRA.
    - `batch`: demonstrations per step, in their order; 0 for all of them.
    - `causal`: layer-causal: each block is trained by the loss of its own output, with gradients from nowhere else.
    """

    name: str
    about: str
    moved: Moved = "all"
    optimiser: Literal["sgd", "adam"] = "sgd"
    batch: int = 0
    causal: bool = False
    rates: tuple[float, ...] = RATES

    @property
    def ordered(self) -> bool:
        """Whether the order of the demonstrations matters beyond rounding."""
        return self.batch > 0


WAYS = {
    way.name: way
    for way in (
        Way("gd", ABOUT["gd"]),
        Way("value-middle", ABOUT["value-middle"], "value-middle"),
        Way("value-deep", ABOUT["value-deep"], "value-deep"),
        Way("mlp", ABOUT["mlp"], "mlp"),
        Way("layer-causal", ABOUT["layer-causal"], "blocks", causal=True),
        Way("lora", ABOUT["lora"], "lora", "adam", rates=(1e-4, 1e-3)),
        *(Way(f"sgd-{n}", ABOUT[f"sgd-{n}"], batch=n) for n in (1, 2, 4)),
        *(Way(f"adam-{n}", ABOUT[f"adam-{n}"], optimiser="adam", batch=n, rates=(1e-5, 1e-4)) for n in (1, 2, 4)),
    )
}


def way(name: str) -> Way:
    """The way of a name."""
    if name not in WAYS:
        raise unknown("way of gradient descent", name, WAYS)
    return WAYS[name]


def moved_names(model: Model, moved: Moved) -> list[str]:
    """The parameters that a way moves, by name; for `lora` none of the model's own."""
    net, blocks = model.model, model.anatomy.names
    if moved == "all":
        return [name for name, _ in net.named_parameters()]
    if moved == "blocks":
        return [f"{block}.{name}" for block in blocks for name, _ in net.get_submodule(block).named_parameters()]
    if moved == "mlp":
        results = [control.name for block in model.anatomy.blocks if block.name for control in block.inputs]
        if not results:
            raise InputError("No matrices that read an MLP's input were found in this model: leave `mlp` out.")
        return results
    if moved == "lora":
        return []
    layer = len(blocks) // 2 if moved == "value-middle" else max(0, len(blocks) - 2)
    return [value_matrix(net, blocks[layer])]


def value_matrix(net: nn.Module, block: str) -> str:
    """The matrix of a block that makes the values; with grouped heads, that of all groups."""
    names = [name for name, p in net.get_submodule(block).named_parameters() if p.ndim == 2]
    results = [name for name in names if name.endswith(VALUES)]
    if len(results) != 1:
        raise InputError(
            f"The block {block} has {len(results)} matrices named as one that makes values: leave the value ways out."
        )
    return f"{block}.{results[0]}"
