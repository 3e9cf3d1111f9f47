"""Stable inversion of a norm on the branch, for low precision (Goldwaser et al., arXiv 2511.17864, appendix B).

The naive patch divides the missing vector by the normalised branch, coordinate by coordinate: small coordinates make
huge scales, which amplify rounding. Here the last matrix first turns the branch into the direction in which the old
scale comes closest to the goal, and the scale corrects only the remainder.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models._device import to_float64


def balanced(goal: Tensor, scale: Tensor) -> Tensor:
    """The `y` with `mean y² = 1` for which `m ⊙ y = goal` has the solution `m` of smallest norm; `(..., width)`.

    With `m = goal/y`, `Σ goal²/y²` is smallest where `y² ∝ |goal|`. Signs are those that leave the signs of the old
    `scale`, and coordinates that need nothing stay zero.
    """
    goal, scale = to_float64(goal), to_float64(scale).expand_as(goal)
    signs = torch.where((goal < 0) != (scale < 0), -1.0, 1.0)
    mean = goal.abs().mean(-1, keepdim=True)
    if bool((mean == 0).any()):
        raise InputError("`goal` is zero for a whole token, and no direction serves it best.")
    return signs * (goal.abs() / mean).sqrt()


def balanced_scale(goals: Tensor, size: Tensor) -> Tensor:
    """One scale `m` for many tokens: of smallest norm with `mean (goal_t/m)² = size²` for each token `t`.

    The condition is what an RMS norm asks for: `m ⊙ n = goal_t` needs `n = goal_t/m`, whose size is fixed, nearly 1.
    With `w = 1/m²` this is a convex program, `min Σ 1/wᵢ` under linear conditions, whose solution is
    `mᵢ² = √(Σ_t λ_t goal²_tᵢ)` with one multiplier for each token. For one token this is `balanced`. Goals of very
    different sizes may not allow equality for all: then `≤` holds for each, and equality where that can be.

    **Arguments:** `goals` `(tokens, width)`; `size`, below 1. **Returns:** `m`, `(width,)`, positive, in float64.
    """
    unit = goals.abs().max()
    G = (to_float64(goals) / unit).square()
    live = G.sum(0) > 0
    # A: its product with 1/m² is `mean (goal_t/m)²` of each token, relative to its required value.
    A = G[:, live] / goals.shape[-1] / to_float64(size) ** 2
    squares = (_equal(A) @ A).clamp_min(0).sqrt()
    if not bool((squares > 0).all()):
        squares = (_at_most(A) @ A).sqrt()
    result = torch.ones(goals.shape[-1], dtype=G.dtype, device=G.device)
    # Rounding, or steps that have not converged, may leave a condition slightly violated.
    result[live] = (squares * (A / squares).sum(-1).max().clamp_min(1.0)).sqrt()
    return result * unit


def _equal(A: Tensor, rounds: int = 100) -> Tensor:
    """Multipliers `λ` for which `Σᵢ A_tᵢ/√(λA)ᵢ = 1` for every token, by damped Newton steps; zeros if there are none.

    They are where the concave dual `2 Σ √(λA) − Σ λ` is largest.
    """
    x = A.new_full((len(A),), 1.0 / len(A))
    x = x * (A / (x @ A).sqrt()).sum(-1).mean().square()

    def dual(y: Tensor) -> Tensor:
        inside = y @ A
        return 2 * inside.sqrt().sum() - y.sum() if bool((inside > 0).all()) else A.new_tensor(-torch.inf)

    for _ in range(rounds):
        root = (x @ A).sqrt()
        slope = (A / root).sum(-1) - 1
        if float(slope.abs().max()) < 1e-13:
            return x
        step = torch.linalg.pinv((A / root**3) @ A.mT / 2, hermitian=True) @ slope
        length, gain = 1.0, float(slope @ step)
        while length > 1e-8 and float(dual(x + length * step)) < float(dual(x)) + 1e-4 * length * gain:
            length /= 2
        if length <= 1e-8:
            break
        x = x + length * step
    return x if float(((A / (x @ A).sqrt()).sum(-1) - 1).abs().max()) < 1e-9 else torch.zeros_like(x)


def _at_most(A: Tensor, rounds: int = 300) -> Tensor:
    """Multipliers `λ ≥ 0` for which `Σᵢ A_tᵢ/√(λA)ᵢ ≤ 1`, with equality where `λ_t > 0`, by multiplicative steps."""
    x = A.new_full((len(A),), 1.0 / len(A))
    for _ in range(rounds):
        x = x * (A / (x @ A).sqrt()).sum(-1).clamp(1e-3, 1e3)
    return x


def closest(goal: Tensor, scale: Tensor, rounds: int = 200) -> Tensor:
    """The `y` with `mean y² = 1` for which `scale ⊙ y` is closest to `goal`; all `(..., width)`, in float64.

    Stationary points are `y = goal ⊙ scale / (scale² − μ)`, and the closest has `μ ≤ min scale²`, where the mean
    square of `y` grows with `μ`: a bisection finds it. In the *hard case* the goal is zero just where `scale²` is
    smallest, and even `μ = min scale²` leaves `y` too short: what is missing then goes into those coordinates, at no
    cost to the fit but the smallest one.
    """
    goal, scale = to_float64(goal), to_float64(scale).expand_as(goal)
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
