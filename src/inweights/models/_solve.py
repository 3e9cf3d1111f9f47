"""The changes of one block, given what it must say: input controls first, then whatever is still missing.

Whatever the input update leaves undone, the output control adds: `δ` is measured on the block as it is by then,
so errors do not pass from layer to layer, and blocks without an input control need nothing special.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from inweights.models._block_patch import BlockPatch, Goal
from inweights.models._branch_norm import norm_shift, stable_norm, static_target
from inweights.models._hidden import hidden, with_hidden
from inweights.models._rerun import Rerun, Steer, cotangent, features, leaves, put, split
from inweights.models._rerun import read as read_input
from inweights.theory import Update, exchanged, least_squares


def solve_static(rerun: Rerun, goal: Goal) -> tuple[BlockPatch, Any]:
    """One change for all query tokens, and the block's output with it."""
    block, model, rows = rerun.block, rerun.model, rerun.rows
    read, new = None, {}
    if goal.read is not None:
        z, _ = read_input(rerun)
        read = least_squares(z, goal.read - z).update
        new = BlockPatch(block, read).parameters(model)
    with exchanged(model, new):
        tape = leaves(model, block)
        with torch.enable_grad():
            out, seen = rerun(tape)
            target, moved = static_target(rerun, goal, out, seen)
            multiplied, scale = features(tape, target[0], rows, block)
    solved = least_squares(torch.cat(list(multiplied.values()), -1), target[1] / scale)
    added = dict(zip(multiplied, split(solved.update, multiplied), strict=True))
    patch = BlockPatch(
        block, read, added, moved,
        float(solved.residual), float(solved.condition), int(solved.rank), bool(solved.exact),
    )  # fmt: skip
    with exchanged(model, patch.parameters(model)):
        out, _ = rerun()
    return patch, out


def solve_token(rerun: Rerun, goal: Goal, *, whole: bool = False, stable: bool = False) -> tuple[BlockPatch, Any]:
    """A change for each query token, and the block's output with all of them.

    `whole` leaves the input controls alone: the output control carries the whole effect. `stable` is for low
    precision: norms are inverted stably, and the output is what the *rounded* changes really make of it, so that the
    next block corrects what rounding did.
    """
    block, model, rows = rerun.block, rerun.model, rerun.rows
    read, steer = None, None
    if goal.read is not None and not whole:
        z, tokens = read_input(rerun)
        dz = goal.read - z
        read = Update(dz.unsqueeze(-1), (z / z.square().sum(-1, keepdim=True)).unsqueeze(-1))
        steer = Steer(rerun, z, dz, tokens)
    tape = leaves(model, block, steer)
    with torch.enable_grad():
        out, seen = rerun(tape)
        y = hidden(out)
        if block.tail == "branch-norm":
            scale = torch.autograd.grad(y, seen["n"], cotangent(y, rows), retain_graph=True)[0][0, rows]
            delta = (goal.said - y[0, rows]).detach() / scale
            if stable and block.scale and not block.shift:
                patch = stable_norm(rerun, read, tape, seen, delta)
            else:
                patch = BlockPatch(block, read, {}, norm_shift(rerun, seen["u"].detach(), delta))
            said = put(y.detach(), rows, goal.said)
            return patch, with_hidden(out, _said(rerun, patch, said) if stable else said)
        aim = seen["u"] if block.tail == "post-norm" else y
        multiplied, scale = features(tape, aim, rows, block)
    delta = (goal.said - aim[0, rows]).detach() / scale
    size = sum(f.square().sum(-1, keepdim=True) for f in multiplied.values())
    added = {slot: Update(delta.unsqueeze(-1), (f / size).unsqueeze(-1)) for slot, f in multiplied.items()}
    patch = BlockPatch(block, read, added)
    said = put(aim.detach(), rows, goal.said)
    if block.tail == "post-norm":
        said = put(y.detach(), rows, model.get_submodule(block.norm)(said)[0, rows])
    return patch, with_hidden(out, _said(rerun, patch, said) if stable else said)


def _said(rerun: Rerun, patch: BlockPatch, ideal: Tensor) -> Tensor:
    """What the block really says with each token's changes in place: it is run again for each of them."""
    for i, row in enumerate(rerun.rows.tolist()):
        with exchanged(rerun.model, patch.at(i).parameters(rerun.model)):
            ideal[0, row] = hidden(rerun()[0])[0, row]
    return ideal
