"""The two runs behind every patch: one with the whole context, one with what is left of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Literal

import torch
from torch import Tensor, nn

from inweights.models._anatomy import Anatomy, Block, hidden, run
from inweights.models._solve import BlockPatch, Goal, Rerun, solve_static, solve_token
from inweights.models._tape import Tape

Mode = Literal["token", "static", "output"]


def inputs(model: nn.Module, ids: Tensor, positions: Tensor | None) -> dict[str, Tensor]:
    """What a forward over some of the tokens is called with: absolute positions, where the model takes them."""
    extra: dict[str, Tensor] = {"attention_mask": torch.ones_like(ids)}
    if positions is not None and takes_positions(model):
        extra["position_ids"] = positions
    return extra


def takes_positions(model: nn.Module) -> bool:
    """Whether the model can be told the positions of its tokens."""
    return "position_ids" in inspect.signature(model.forward).parameters


def goals(model: nn.Module, anatomy: Anatomy, ids: Tensor, rows: Tensor) -> tuple[dict[str, Goal], Tensor]:
    """What every block makes of the query tokens with the whole context, and the logits `(tokens, vocabulary)`."""
    said: dict[str, Tensor] = {}
    blocks = [b for b in anatomy.blocks if b.supported]
    readers = {b.inputs[0].name: b.name for b in blocks if b.inputs}
    tape = Tape({name: model.get_parameter(name) for name in readers})

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, out: Any = None) -> None:
            value = args[0] if out is None else hidden(out)
            said[name] = value[0, rows].detach()

        return hook

    with ExitStack() as stack, torch.no_grad():
        for b in blocks:
            if b.tail == "post-norm":
                handle = model.get_submodule(b.norm).register_forward_pre_hook(note(b.name))
            else:
                handle = model.get_submodule(b.name).register_forward_hook(note(b.name))
            stack.callback(handle.remove)
        with tape:
            logits = run(model, ids, **inputs(model, ids, None))[0, rows]
    read = {readers[p.name]: p.x[0, rows].detach() for p in tape.products}
    return {b.name: Goal(read.get(b.name), said[b.name]) for b in blocks}, logits


def solve(
    model: nn.Module,
    anatomy: Anatomy,
    wanted: dict[str, Goal],
    ids: Tensor,
    positions: Tensor,
    rows: Tensor,
    mode: Mode,
) -> list[BlockPatch]:
    """The changes of all blocks, solved on the reduced stream, each block on what the patched ones before it say."""
    patches: list[BlockPatch] = []

    def patch(block: Block) -> Callable[..., Any]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            rerun = Rerun(model, block, args, kwargs, rows)
            if mode == "static":
                made, out = solve_static(rerun, wanted[block.name])
            else:
                made, out = solve_token(rerun, wanted[block.name], whole=mode == "output")
            patches.append(made)
            return out

        return hook

    with ExitStack() as stack, torch.no_grad():
        for b in anatomy.blocks:
            if b.supported:
                module = model.get_submodule(b.name)
                stack.callback(module.register_forward_hook(patch(b), with_kwargs=True).remove)
        run(model, ids, **inputs(model, ids, positions))
    return patches
