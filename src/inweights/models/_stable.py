"""Stable inversion of a norm on the branch, for low precision (Goldwaser et al., arXiv 2511.17864, appendix B).

The naive patch divides what is missing by the normalised branch, coordinate by coordinate: small coordinates make
huge scales, and rounding does the rest. Here the last matrix first turns the branch into the direction from which the
old scale comes as close to the goal as it can, and the scale corrects only what is left.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweights._errors import InputError


def balanced(goal: Tensor, scale: Tensor) -> Tensor:
    """The `y` with `mean y² = 1` for which `m ⊙ y = goal` has the solution `m` of smallest norm; `(..., width)`.

    With `m = goal/y`, `Σ goal²/y²` is smallest where `y² ∝ |goal|`. Signs are those that leave the signs of the old
    `scale`, and coordinates that need nothing stay zero.
    """
    goal, scale = goal.double(), scale.double().expand_as(goal)
    signs = torch.where((goal < 0) != (scale < 0), -1.0, 1.0)
    mean = goal.abs().mean(-1, keepdim=True)
    if bool((mean == 0).any()):
        raise InputError("`goal` is zero for a whole token, and no direction serves it best.")
    return signs * (goal.abs() / mean).sqrt()


def balanced_scale(goals: Tensor, size: Tensor, rounds: int = 500) -> Tensor:
    """One scale `m` for many tokens: of smallest norm with `mean (goal_t/m)² ≤ size²` for each token `t`.

    The condition is what an RMS norm allows: `m ⊙ n = goal_t` needs `n = goal_t/m`, whose mean square is below 1. With
    `w = 1/m²` this is a convex program, `min Σ 1/wᵢ` under linear conditions, whose solution is
    `mᵢ² = √(Σ_t λ_t goal²_tᵢ)` with one multiplier `λ_t ≥ 0` for each token; `λ_t = 0` where the condition is slack.
    For one token this is `balanced`. Multiplicative steps come near the multipliers, Newton's method completes them.

    **Arguments:** `goals` `(tokens, width)`; `size`, below 1. **Returns:** `m`, `(width,)`, positive, in float64.
    """
    unit = goals.abs().max()
    G = (goals.double() / unit).square()
    live = G.sum(0) > 0
    G, tokens = G[:, live], len(G)
    level = size.double() ** 2
    multipliers = torch.full((tokens,), 1.0 / tokens, dtype=G.dtype, device=G.device)

    def squares(x: Tensor) -> Tensor:
        return (x @ G).sqrt()

    def used(x: Tensor) -> Tensor:
        """`mean (goal_t/m)²` of each token, relative to what is allowed."""
        return (G / squares(x)).sum(-1) / goals.shape[-1] / level

    for _ in range(rounds):
        multipliers = multipliers * used(multipliers).clamp(1e-3, 1e3)
    active = (multipliers > 1e-9 * multipliers.max()) & (used(multipliers) > 0.9)
    for _ in range(20):
        x = torch.where(active, multipliers, 0.0)
        root = squares(x)
        miss = used(x)[active] - 1
        slope = -0.5 * (G[active] / root**3) @ G[active].mT / goals.shape[-1] / level
        new = x[active] - torch.linalg.pinv(slope) @ miss if bool(slope.isfinite().all()) else -x[active]
        if not bool((new > 0).all()):
            break  # not all of these conditions can be met at once: what multiplicative steps gave is kept
        multipliers = x.masked_scatter(active, new)
    result = torch.ones(goals.shape[-1], dtype=G.dtype, device=G.device)
    result[live] = squares(multipliers).sqrt()
    # Rounding, or steps that had not ended, may leave a condition violated by a little.
    excess = (((goals.double() / unit) / result).square().mean(-1) / level).max().clamp_min(1.0)
    return result * unit * (excess.sqrt() if excess > 1 + 1e-12 else 1.0)


def closest(goal: Tensor, scale: Tensor, rounds: int = 200) -> Tensor:
    """The `y` with `mean y² = 1` for which `scale ⊙ y` is closest to `goal`; all `(..., width)`, in float64.

    Stationary points are `y = goal ⊙ scale / (scale² − μ)`, and the closest has `μ ≤ min scale²`, where the mean
    square of `y` grows with `μ`: a bisection finds it. In the *hard case* the goal is zero just where `scale²` is
    smallest, and even `μ = min scale²` leaves `y` too short: what is missing then goes into those coordinates, at no
    cost to the fit but the smallest one.
    """
    goal, scale = goal.double(), scale.double().expand_as(goal)
    pull, square = goal * scale, scale.square()
    least = square.amin(-1, keepdim=True)
    width = goal.shape[-1]

    def size(mu: Tensor) -> Tensor:
        return (pull / (square - mu)).square().mean(-1, keepdim=True)

    # At this distance below `least` the mean square is at most 1.
    low = least - pull.square().mean(-1, keepdim=True).sqrt() - 1e-12
    high = least.clone()
    for _ in range(rounds):
        middle = (low + high) / 2
        long = size(middle).nan_to_num(torch.inf) > 1
        low, high = torch.where(long, low, middle), torch.where(long, middle, high)
    y = pull / (square - low)
    weak = square <= least * (1 + 1e-12) + 1e-300
    rest = torch.where(weak, 0.0, y)
    short = width - rest.square().sum(-1, keepdim=True)
    hard = (y.square().mean(-1, keepdim=True) < 1 - 1e-9) & (short > 0)
    fill = (short.clamp_min(0) / weak.sum(-1, keepdim=True)).sqrt()
    return torch.where(hard, torch.where(weak, torch.where(pull < 0, -fill, fill), rest), y)
