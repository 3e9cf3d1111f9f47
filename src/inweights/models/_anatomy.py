"""`Anatomy`: where a model's blocks are, and the parameters whose changes can replace a context.

No names of model families are used. A short forward is traced: which products with parameters are computed, what
depends on what (by automatic differentiation), and which modules are norms (by their behaviour).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._dissect import controls, dissect
from inweights.running import Block, KeepFloat64, Tape, hidden, hooked, matrices, run, vocabulary


@dataclass(frozen=True)
class Anatomy:
    """The blocks of a model in the order in which they run."""

    blocks: tuple[Block, ...]
    casts: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def supported(self) -> bool:
        """Whether the model's output can have the effect of a context: its last block must be patched."""
        return bool(self.blocks) and self.blocks[-1].supported

    @property
    def names(self) -> list[str]:
        """The blocks that are modules of the model, by name; a patched head is not among them."""
        return [b.name for b in self.blocks if b.name]


def anatomy(model: nn.Module, ids: Tensor | None = None) -> Anatomy:
    """The anatomy of a causal language model, from one short forward of its own.

    `ids` are the tokens to trace with, shape `(1, n)`; some that any vocabulary has, by default.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2")
    print(iw.anatomy(m.model).blocks[0].outputs[0].name)
    # prints model.layers.0.mlp.down_proj.weight
    ```
    """
    if ids is None:
        # Enough tokens that, in a mixture, most experts are visited by one of them.
        ids = (torch.arange(5, 21) * 7).unsqueeze(0) % max(2, vocabulary(model))
    ids = ids.to(next(model.parameters()).device)
    float64 = KeepFloat64()
    precise: Any = float64 if next(model.parameters()).dtype == torch.float64 else nullcontext()
    names = _chain(model, ids, precise)
    results: dict[str, Block] = {}

    def look(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
            with torch.enable_grad():
                results[name] = dissect(name, module, args, kwargs)

        return hook

    with hooked(after=[(model.get_submodule(name), look(name)) for name in names]), torch.no_grad(), precise:
        run(model, ids)
    blocks = [results.get(name) or Block(name, reason="it is never run by itself") for name in names]
    if not blocks[-1].supported:
        with torch.enable_grad(), precise:
            blocks.append(_head(model, ids))
    return Anatomy(tuple(blocks), float64.casts)


def _head(model: nn.Module, ids: Tensor) -> Block:
    """The whole model as one block, whose last matrix is its head: the fallback where no block can be patched."""
    watched = matrices(model)
    with Tape(watched) as tape:
        logits = run(model, ids)
    for p in reversed(tape.products):
        if p.x.shape[1] == ids.shape[1] and p.made.shape == logits.shape and torch.equal(p.made, logits):
            return Block("", outputs=controls([p], watched), tail="head", unit=True)
    return Block("", tail="head", reason="its logits are not the result of one last matrix")


def _chain(model: nn.Module, ids: Tensor, precise: Any) -> list[str]:
    """The names of the blocks, in order: members of a list that take and return hidden states, each run once.

    Where there is no such list, the whole body of the model is the one block.
    """
    order: list[str] = []
    n = ids.shape[1]

    def hook(name: str) -> Any:
        def seen(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
            try:
                y = hidden(out)
                x = next(t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.is_floating_point())
            except (InputError, StopIteration):
                return
            if y.ndim == 3 and y.shape == x.shape and y.shape[1] == n:
                order.append(name)

        return seen

    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    hooks = [
        (child, hook(f"{name}.{i}"))
        for name, m in lists
        for i, child in m.named_children()
        if any(True for _ in child.children())  # a bare matrix is no block
    ]
    with hooked(after=hooks), torch.no_grad(), precise:
        run(model, ids)
    # Nested lists (experts, sub-layers) run inside a block: keep the outermost.
    outer = [a for a in order if not any(a != b and a.startswith(f"{b}.") for b in order)]
    if outer and len(set(outer)) == len(outer):
        return outer
    return [_body(model)]


def _body(model: nn.Module) -> str:
    """The module that computes the final hidden states."""
    prefix = getattr(model, "base_model_prefix", "")
    if prefix and isinstance(getattr(model, prefix, None), nn.Module):
        return str(prefix)
    raise InputError("No chain of blocks and no model body was found in this model.")
