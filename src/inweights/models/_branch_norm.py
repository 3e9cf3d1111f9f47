"""Norms on the branch, which hide what the last matrix adds: their scale, their ε, and three ways to invert them.

All three make the branch equal to a goal, coordinate by coordinate: `m' ⊙ n(u') = goal`.

- *naive*: `u' = u`, all of it in the scale (Theorem 1 of arXiv 2511.17864). Small coordinates of `n` make huge scales.
- *stable*: the last matrix turns `u` to where the old scale comes closest to the goal (its appendix B); the scale
  corrects what is left.
- *balanced*: `n(u') ∝ √|goal|`, which among all solutions has the smallest `‖m'‖`, and so the smallest amplification
  of an error of `n`.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models._block_patch import BlockPatch, Goal
from inweights.models._device import to_float64
from inweights.models._features import carried, features
from inweights.models._stable import balanced, balanced_scale, closest
from inweights.running import Rerun, Tape, cotangent, hidden, put
from inweights.theory import Update, exchanged, norm, quotient

Inversion = Literal["best", "naive", "stable", "balanced"]


def inversions(
    rerun: Rerun,
    goal: Goal,
    read: Update | None,
    tape: Tape,
    y: Tensor,
    seen: dict[str, Tensor],
    wanted: Inversion,
) -> list[BlockPatch]:
    """The requested ways of inversion that this norm and goal allow.

    **Arguments:** `y` is the output of the block, `seen` the tensors before (`u`) and behind (`n`) its norm, all
    `(1, n, width)`, on the graph of `tape`.
    """
    block, rows = rerun.block, rerun.rows
    path = torch.autograd.grad(y, seen["n"], cotangent(y, rows), retain_graph=True)[0][0, rows]
    delta = quotient((goal.output - y[0, rows]).detach(), path)
    if block.shift:
        return [BlockPatch(block, read, {}, {block.shift: delta}, inversion="shift")]
    if not block.scale:
        raise InputError("the norm on its branch has neither a scale nor a bias that could be changed.")
    patches: list[BlockPatch] = []
    problems: list[InputError] = []
    for way in ("naive", "stable", "balanced") if wanted == "best" else (wanted,):
        try:
            patches.append(_inverted(way, rerun, read, tape, seen, delta))
        except InputError as error:  # a coordinate that this way cannot reach: another may
            problems.append(error)
    if not patches:
        raise problems[-1]
    return patches


def _inverted(
    way: str, rerun: Rerun, read: Update | None, tape: Tape, seen: dict[str, Tensor], delta: Tensor
) -> BlockPatch:
    block, rows = rerun.block, rerun.rows
    u, n = seen["u"], seen["n"]
    if way == "naive":
        shift = quotient(delta, _normalised(rerun, u.detach())[0, rows])
        return BlockPatch(block, read, {}, {block.scale: shift}, inversion=way)
    goal = (n[0, rows] + delta).detach()
    scale = rerun.model.get_parameter(block.scale).detach() + _offset(rerun, u)
    y = (closest(goal, scale) if way == "stable" else balanced(goal, scale)).to(goal)
    size = (norm(u.detach()[0, rows]) / u.shape[-1] ** 0.5).to(u.dtype)
    size = torch.where(size > 0, size, 1.0)
    multiplied, path = features(tape, u, rows, block)
    added = carried(multiplied, quotient((size * y - u[0, rows]).detach(), path))
    reached = _normalised(rerun, put(u.detach(), rows, size * y))[0, rows]
    return BlockPatch(block, read, added, {block.scale: quotient(goal - scale * reached, reached)}, inversion=way)


def _with(rerun: Rerun, name: str, value: float, u: Tensor) -> Tensor:
    """The norm of the branch with a constant as its scale."""
    W = rerun.model.get_parameter(name)
    with torch.no_grad(), exchanged(rerun.model, {name: torch.full_like(W, value)}):
        return rerun.model.get_submodule(rerun.block.norm).forward(u)


def _normalised(rerun: Rerun, u: Tensor) -> Tensor:
    """`n(u)`: what the norm makes of `u` before its scale. (Gemma stores the scale less one: hence two runs.)"""
    return _with(rerun, rerun.block.scale, 1.0, u) - _with(rerun, rerun.block.scale, 0.0, u)


def _offset(rerun: Rerun, u: Tensor) -> Tensor:
    """The constant that the norm adds to its stored scale: 0, or 1 for Gemma."""
    probe = _alternating(u)
    return (_with(rerun, rerun.block.scale, 0.0, probe) / _normalised(rerun, probe)).nanmean().round()


def static_target(
    rerun: Rerun, goal: Goal, out: Any, seen: dict[str, Tensor]
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """The tensor that the last matrices add to, `(1, n, width)`; its goal at the query tokens; changed vectors."""
    block, rows, y = rerun.block, rerun.rows, hidden(out)
    if block.tail != "branch-norm":
        aim = seen["u"] if block.tail == "post-norm" else y
        return aim, goal.output, {}
    u, n = seen["u"], seen["n"]
    path = torch.autograd.grad(y, n, cotangent(y, rows), retain_graph=True)[0][0, rows]
    goals = quotient((goal.output - (y[0, rows] - path * n[0, rows])).detach(), path)
    wanted, scale = _many(goals, u.detach()[0, rows], _epsilon(rerun, u.detach()))
    W = rerun.model.get_parameter(block.scale).detach()
    return u, wanted, {block.scale: scale - _offset(rerun, u) - W}


def _many(goals: Tensor, u: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs of an RMS norm, `(tokens, width)`, and the one scale behind it, with which each token has its goal.

    The norm fixes the size of its output at nearly 1. A scale is chosen for which every goal has that size, where there
    is one. A token whose goal is smaller needs an input so small that the ε of the norm counts, which is exact as well
    but sensitive to rounding.
    """
    dtype = goals.dtype
    goals, u, eps = (to_float64(t) for t in (goals, u, eps))
    size = (norm(u).max() / u.shape[-1] ** 0.5).clamp_min(10 * eps.sqrt())
    full = size / (size.square() + eps).sqrt()
    scale = balanced_scale(goals, full).to(goals)
    n = goals / scale
    reached = n.square().mean(-1, keepdim=True).sqrt()
    small = n * (eps / (1 - reached.square()).clamp_min(torch.finfo(n.dtype).tiny)).sqrt()
    met = (reached / full - 1).abs() < 1e-9
    wanted = torch.where(met, n * size / reached.clamp_min(torch.finfo(n.dtype).tiny), small)
    return wanted.to(dtype), scale.to(dtype)


def _epsilon(rerun: Rerun, u: Tensor) -> Tensor:
    """The ε of an RMS norm, from its output for an input of constant size: `t/√(t² + ε)`."""
    t = 1e-3
    n = to_float64(_normalised(rerun, t * _alternating(u)).abs().mean())
    return t * t * (1 / n.square() - 1)


def _alternating(u: Tensor) -> Tensor:
    """One token of ±1, `(1, 1, width)`: a norm that subtracts the mean maps a constant to zero."""
    signs = torch.ones_like(u[:, :1]).detach()
    signs[..., ::2] = -1
    return signs
