"""The changes of one block, given its goal: input controls first, then the output control for the remainder.

The remainder `δ` is measured on the block with its input update, so blocks without an input control are no special
case. Beside the changes, the *actual* output of the changed block is returned, rounding included: the next block is
solved on it, so errors do not accumulate (Algorithm 1 of arXiv 2511.17864).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models._block_patch import BlockPatch, Goal
from inweights.models._branch_norm import Inversion, inversions, static_target
from inweights.models._device import to_float64
from inweights.models._features import carried, features, split
from inweights.running import Rerun, Steer, hidden, leaves, read_input, with_hidden
from inweights.theory import Solution, Update, exchanged, least_squares, norm, quotient, rank_one, require_finite

PASSES, SMALL = 4, 1e-2
"""How often the input of a branch norm is made smaller in static mode, and below which ratio it is."""


def solve_static(rerun: Rerun, goal: Goal, *, measure: bool = True) -> tuple[BlockPatch, Any]:
    """One change for all query tokens, and the block's actual output with it."""
    block, model, rows = rerun.block, rerun.model, rerun.rows
    read, share = None, torch.ones_like(goal.output[:, :1])
    for _ in range(PASSES):
        new = {}
        if goal.read is not None:
            z, _ = read_input(rerun)
            read = _least_squares(z, share * goal.read - z).update
            new = BlockPatch(block, read).parameters(model)
        with exchanged(model, new):
            tape = leaves(model, block)
            with torch.enable_grad():
                out, seen = rerun(tape)
                aim, wanted, moved = static_target(rerun, goal, out, seen)
                multiplied, scale = features(tape, aim, rows, block)
        lacking = (wanted - aim[0, rows]).detach()
        # A branch that must enter its norm far smaller than it is would be a small difference of large numbers. The
        # MLP of that token is given a share of its input instead: it need not be the input of the full context.
        ratio = wanted.norm(dim=-1, keepdim=True) / aim.detach()[0, rows].norm(dim=-1, keepdim=True)
        if read is None or block.tail != "branch-norm" or not bool((ratio < SMALL).any()):
            break
        share = share * torch.where(ratio < SMALL, ratio.sqrt(), 1.0)
    solved = _least_squares(torch.cat(list(multiplied.values()), -1), _through(scale, lacking))
    added = dict(zip(multiplied, split(solved.update, multiplied), strict=True))
    patch = BlockPatch(
        block, read, added, moved,
        float(solved.residual), float(solved.condition), int(solved.rank), bool(solved.exact),
    )  # fmt: skip
    with exchanged(model, patch.parameters(model)):
        noise = rerun.noise() if measure else None
        noisy = None if noise is None else rerun(noise=noise)[0]
        out, seen = rerun()
    reached = (seen["u"] if block.tail == "post-norm" else hidden(out))[0, rows]
    size = norm(goal.output)
    miss = float((norm(reached - goal.output) / size.clamp_min(torch.finfo(size.dtype).tiny)).max())
    patch = replace(patch, residual=max(patch.residual, miss), exact=patch.exact and miss <= _rounding(goal.output))
    if noise is not None:
        patch = replace(patch, amplification=_amplification(rerun, noise, hidden(noisy), hidden(out)))
    return patch, out


def _through(scale: Tensor, wanted: Tensor) -> Tensor:
    """The vector that the last matrices must add for `wanted` behind the gates or factors that follow them."""
    closed = (scale == 0) & (wanted != 0)
    if bool(closed.any()):
        raise InputError(
            f"what follows its last matrices is zero in {int(closed.sum())} of {closed.numel()} coordinates (a closed "
            "gate), so nothing that they add arrives there."
        )
    return quotient(wanted, scale)


def _rounding(like: Tensor) -> float:
    """The relative error below which a result counts as exact: the square root of the machine epsilon."""
    return torch.finfo(like.dtype).eps ** 0.5


def _least_squares(Z: Tensor, T: Tensor) -> Solution:
    """`theory.least_squares` of `Z (tokens, in)` and `T (tokens, out)`, each equation divided by the size of its input.

    Sizes of activations differ by orders of magnitude from token to token, and a small token is not a dependent one.
    """
    require_finite(Z=Z, T=T)
    size = norm(Z)
    size = torch.where(size > 0, size, 1.0)
    Z, T = (Z / size).to(Z.dtype), (T / size).to(T.dtype)
    smallest = least_squares(Z, T)
    if bool(smallest.exact):
        return smallest
    # Massive activations, which all tokens share, drown the coordinates by which they differ. In units of each
    # coordinate's own size they do not; the solution is then not the smallest one, but as exact.
    unit = torch.linalg.vector_norm(Z, dim=0)  # of rows of length 1: no square leaves the range
    unit = torch.where(unit > 0, unit, 1.0)
    scaled = least_squares(Z / unit, T)
    if not bool(scaled.exact):
        return smallest
    return replace(scaled, update=Update(scaled.update.u, scaled.update.v / unit.unsqueeze(-1)))


def solve_token(
    rerun: Rerun, goal: Goal, *, whole: bool = False, inversion: Inversion = "best", measure: bool = True
) -> tuple[BlockPatch, Any]:
    """A change for each query token, and the block's actual output with all of them.

    - `whole` leaves the input controls alone: the output control carries the whole effect.
    - `inversion`: how a norm on the branch is inverted; `"best"` tries all ways and takes the one with the smallest
      error.
    - `measure`: also measure the amplification of the patched block, at the cost of one more run of it.
    """
    block, rows = rerun.block, rerun.rows
    read, steer = None, None
    if goal.read is not None and not whole:
        z, tokens = read_input(rerun)
        read = rank_one(z, goal.read - z)
        steer = Steer(rerun, z, goal.read - z, tokens)
    tape = leaves(rerun.model, block, steer)
    with torch.enable_grad():
        out, seen = rerun(tape)
        if block.tail == "branch-norm":
            candidates = inversions(rerun, goal, read, tape, hidden(out), seen, inversion)
        else:
            aim = seen["u"] if block.tail == "post-norm" else hidden(out)
            multiplied, scale = features(tape, aim, rows, block)
            delta = _through(scale, (goal.output - aim[0, rows]).detach())
            candidates = [BlockPatch(block, read, carried(multiplied, delta))]
    if len(candidates) == 1 and not measure:
        return candidates[0], _actual(rerun, candidates[0])[0]
    return _best(rerun, candidates, goal)


def _best(rerun: Rerun, candidates: Sequence[BlockPatch], goal: Goal) -> tuple[BlockPatch, Any]:
    """The candidate with the smallest error, and the block's actual output with it.

    The error of a candidate is its own error plus that by rounding of its input: a change that is exact in theory may
    amplify rounding errors a millionfold.
    """
    noise = rerun.noise()
    tried: list[tuple[float, BlockPatch, Any]] = []
    for patch in candidates:
        out, noisy = _actual(rerun, patch, noise)
        miss = (hidden(out)[0, rerun.rows] - goal.output).norm()
        if noise is None or noisy is None:
            tried.append((float(miss), patch, out))
            continue
        eps = torch.finfo(noise.dtype).eps
        spread = (hidden(noisy) - hidden(out))[0, rerun.rows].norm() * eps**0.5
        gain = _amplification(rerun, noise, hidden(noisy), hidden(out))
        tried.append((float(miss + spread), replace(patch, amplification=gain), out))
    _, patch, out = min(tried, key=lambda t: t[0] if t[0] == t[0] else torch.inf)  # NaN comes last
    if patch.inversion != tried[-1][1].inversion:  # a cache must hold what the chosen one writes to it
        out, _ = _actual(rerun, patch)
    return patch, out


def _actual(rerun: Rerun, patch: BlockPatch, noise: Tensor | None = None) -> tuple[Any, Any]:
    """The output of the block with each token's changes in place; and the same where `noise` is added to its input.

    The run without noise comes last, so that a cache holds what it wrote.
    """
    clean = noisy = None
    for i, row in enumerate(rerun.rows.tolist()):
        with exchanged(rerun.model, patch.at(i).parameters(rerun.model)):
            disturbed = None if noise is None else rerun(noise=noise)[0]
            out, _ = rerun()
        if clean is None:
            clean, noisy = out, disturbed
            if hidden(out).shape[1] == 1:
                return clean, noisy
            # The other rows are left to the block without changes, or to the changes of their own.
            plain = hidden(rerun()[0])
            y, x = plain.clone(), plain.clone()
        y[0, row] = hidden(out)[0, row]
        if disturbed is not None:
            x[0, row] = hidden(disturbed)[0, row]
    return with_hidden(clean, y), None if noisy is None else with_hidden(noisy, x)


def _amplification(rerun: Rerun, noise: Tensor, noisy: Tensor, out: Tensor) -> float:
    """`‖δ_out‖/‖δ_in‖`, the largest over the query tokens."""
    grown, given = (to_float64(t[0, rerun.rows]).norm(dim=-1) for t in (noisy - out, noise))
    return float((grown / given.clamp_min(torch.finfo(given.dtype).tiny)).max())
