"""Norms on the branch, which hide what the last matrix adds: their scale, their ε, and their stable inversion."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from inweights.models._block_patch import BlockPatch, Goal
from inweights.models._hidden import hidden
from inweights.models._rerun import Rerun, cotangent, features, put
from inweights.models._stable import closest
from inweights.models._tape import Tape
from inweights.theory import Update, exchanged


def _with(rerun: Rerun, name: str, value: float, u: Tensor) -> Tensor:
    """The norm of the branch with a constant as its scale."""
    W = rerun.model.get_parameter(name)
    with torch.no_grad(), exchanged(rerun.model, {name: torch.full_like(W, value)}):
        return rerun.model.get_submodule(rerun.block.norm).forward(u)


def _normalised(rerun: Rerun, u: Tensor) -> Tensor:
    """`n(u)`: what the norm makes of `u` before its scale. (Gemma stores the scale less one: hence two runs.)"""
    return _with(rerun, rerun.block.scale, 1.0, u) - _with(rerun, rerun.block.scale, 0.0, u)


def norm_shift(rerun: Rerun, u: Tensor, delta: Tensor) -> dict[str, Tensor]:
    if rerun.block.shift:
        return {rerun.block.shift: delta}
    n = _normalised(rerun, u)[0, rerun.rows]
    # A zero coordinate cannot be scaled into anything; the paper divides by one there.
    return {rerun.block.scale: delta / torch.where(n == 0, 1.0, n)}


def stable_norm(rerun: Rerun, read: Update | None, tape: Tape, seen: dict[str, Tensor], delta: Tensor) -> BlockPatch:
    """The last matrix turns the branch to where the old scale serves best; the scale corrects what is left."""
    block, rows = rerun.block, rerun.rows
    u, n = seen["u"], seen["n"]
    goal = (n[0, rows] + delta).detach()
    W = rerun.model.get_parameter(block.scale).detach()
    scale = W + _offset(rerun, u)
    y = closest(goal, scale).to(goal.dtype)
    size = u.detach()[0, rows].square().mean(-1, keepdim=True).sqrt()
    multiplied, path = features(tape, u, rows, block)
    wanted = (size * y - u[0, rows]).detach() / path
    length = sum(f.square().sum(-1, keepdim=True) for f in multiplied.values())
    added = {slot: Update(wanted.unsqueeze(-1), (f / length).unsqueeze(-1)) for slot, f in multiplied.items()}
    turned = put(u.detach(), rows, size * y)
    reached = _normalised(rerun, turned)[0, rows]
    left = goal - scale * reached
    return BlockPatch(block, read, added, {block.scale: left / torch.where(reached == 0, 1.0, reached)})


def _offset(rerun: Rerun, u: Tensor) -> Tensor:
    """What the norm adds to its stored scale: 0, or 1 for Gemma."""
    probe = u.detach()[:, :1]
    return (_with(rerun, rerun.block.scale, 0.0, probe) / _normalised(rerun, probe)).nanmean().round()


def static_target(
    rerun: Rerun, goal: Goal, out: Any, seen: dict[str, Tensor]
) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """The tensor that the last matrices add to, and what it lacks: `(aim, (tokens, width))`; and changed vectors."""
    block, rows, y = rerun.block, rerun.rows, hidden(out)
    if block.tail != "branch-norm":
        aim = seen["u"] if block.tail == "post-norm" else y
        return (aim, (goal.said - aim[0, rows]).detach()), {}
    # The norm fixes how much the branch adds, but for its ε: with a large scale, small inputs reach any goal.
    u, n = seen["u"], seen["n"]
    scale = torch.autograd.grad(y, n, cotangent(y, rows), retain_graph=True)[0][0, rows]
    stream = y[0, rows] - scale * n[0, rows]
    g = ((goal.said - stream) / scale).detach()
    eps = _epsilon(rerun, u.detach())
    c = (2 * g.square().mean(-1).max()).sqrt()
    aims = g / c
    wanted = aims * (eps / (1 - aims.square().mean(-1, keepdim=True))).sqrt()
    W = rerun.model.get_parameter(block.scale)
    return (u, (wanted - u[0, rows]).detach()), {block.scale: (c - _offset(rerun, u)) - W.detach()}


def _epsilon(rerun: Rerun, u: Tensor) -> Tensor:
    """The ε of an RMS norm, from what it does to a constant input: `t/√(t² + ε)`."""
    t = 1e-3
    n = _normalised(rerun, torch.full_like(u[:, :1], t)).mean()
    return t * t * (1 / n.square() - 1)
