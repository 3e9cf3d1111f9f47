"""Many query tokens at once: one weight change that serves them all.

With the tokens' inputs as the columns of `Z` and what the context adds to them as those of `ΔZ`,
`ΔW = W ΔZ Z⁺`. One token gives the theorem; more tokens than the width give its least-squares fold.
Here, as everywhere in torch, tokens are rows: `Z` has shape `(..., tokens, in)`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.theory._checks import (
    norm,
    require_alike,
    require_broadcast,
    require_finite,
    require_last,
    require_matrix,
    wide,
)
from inweights.theory._update import Update


@dataclass(frozen=True, eq=False)
class Solution:
    """An update fitted to many tokens, and how far it can be trusted. All numbers have shape `(...)`.

    - `update`: the update itself, of at most as many columns as there are tokens.
    - `rank`: how many independent directions the inputs have (singular values above the cut).
    - `condition`: largest over smallest kept singular value of the inputs.
    - `residual`: the largest relative error over the tokens: `max_i ‖M z_i − t_i‖ / ‖t_i‖` (a target smaller than
      the rounding error of `M z_i` counts as that large). It is measured with the factors as returned, for the
      equations that were solved, that is before any `premultiplied(W)`.
    - `exact`: whether the residual is rounding: below the square root of the machine epsilon of the dtype.
    """

    update: Update
    rank: Tensor
    condition: Tensor
    residual: Tensor
    exact: Tensor

    def premultiplied(self, W: Tensor) -> Solution:
        """The same solution carried to a matrix `W` that reads the input: `ΔW = W M`."""
        return dataclasses.replace(self, update=self.update.premultiplied(W))

    def growth(self, W: Tensor) -> Tensor:
        """`‖ΔW‖_F / ‖W‖_F`. A very large value indicates an update that inverts rounding noise."""
        return self.update.frobenius() / torch.linalg.matrix_norm(wide(W))


def least_squares(Z: Tensor, T: Tensor, *, ridge: float = 0.0, cut: float | None = None, name: str = "") -> Solution:
    """The smallest `M` that minimises `Σ_i ‖M z_i − t_i‖² + ridge ‖M‖²`.

    **Arguments:**

    - `Z`: inputs, shape `(..., tokens, in)`.
    - `T`: targets, shape `(..., tokens, out)`.
    - `ridge`: the penalty; 0 gives the pseudo-inverse.
    - `cut`: singular values of `Z` below `cut` times the largest count as zero; 1e-8, or the precision of the dtype if
      that is more. They are *not* fitted: equal tokens with different targets leave a residual, not a huge update.

    **Returns:** a `Solution`; `M z_i = t_i` for all tokens if and only if it is `exact`.

    **Example:**

    ```python
    import torch
    import inweights as iw

    Z, T = torch.eye(3, dtype=torch.float64)[:2], torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    solution = iw.least_squares(Z, T)
    print(bool(solution.exact), int(solution.rank), torch.allclose(solution.update(Z[0]), T[0]))
    # prints True 2 True
    ```
    """
    if Z.ndim < 2 or T.ndim < 2 or Z.shape[-2] != T.shape[-2]:
        raise InputError(
            f"`Z` {tuple(Z.shape)} and `T` {tuple(T.shape)} must be (..., tokens, in) and (..., tokens, out) "
            "with the same number of tokens."
        )
    if Z.shape[-2] == 0:
        raise InputError("`Z` has no tokens: pass at least one.")
    if not 0 <= ridge < float("inf"):
        raise InputError(f"`ridge` is {ridge}, but must be a number from 0 up.")
    if cut is not None and not 0 <= cut < 1:
        raise InputError(f"`cut` is {cut}, but must be a fraction: at least 0 and below 1.")
    require_alike(Z=Z, T=T)
    require_broadcast(Z=tuple(Z.shape[:-2]), T=tuple(T.shape[:-2]))
    require_finite(Z=Z, T=T)
    dtype, Z, T = Z.dtype, wide(Z), wide(T)
    # Z = P S Qᵀ, so M = Tᵀ P S⁺ Qᵀ: already in factors.
    P, s, Qh = torch.linalg.svd(Z, full_matrices=False)
    if cut is None:
        cut = max(1e-8, torch.finfo(Z.dtype).eps * max(Z.shape[-2:]))
    kept = (s > cut * s[..., :1]) & (s > 0)
    # s/(s² + ridge), without a square that could leave the range.
    inverse = torch.where(kept, 1 / torch.where(kept, s + ridge / s, 1.0), 0.0)
    u = (T.mT @ P) * inverse.unsqueeze(-2)
    if not ridge:  # one step of iterative refinement: what rounding left of the targets, by the same factors
        u = u + ((T - Z @ Qh.mT @ u.mT).mT @ P) * inverse.unsqueeze(-2)
    update = Update(u, Qh.mT, name).to(dtype)
    residual = _residual(update, Z, T)
    smallest = torch.where(kept, s, torch.inf).amin(-1)
    return Solution(
        update=update,
        rank=kept.sum(-1),
        condition=torch.where(kept.any(-1), s[..., 0] / smallest, torch.inf),
        residual=residual,
        exact=residual <= torch.finfo(dtype).eps ** 0.5,
    )


def _residual(update: Update, Z: Tensor, T: Tensor) -> Tensor:
    """The largest relative error over the tokens: relative, so that a large target does not hide the error of a
    small one."""
    miss = norm(Z @ wide(update.v) @ wide(update.u).mT - T).squeeze(-1)
    eps = torch.finfo(update.u.dtype).eps
    blur = 30 * eps * update.frobenius().unsqueeze(-1) * norm(Z).squeeze(-1)  # the rounding of M z itself
    size = norm(T).squeeze(-1) + blur / eps**0.5
    return torch.where(size > 0, miss / size.clamp_min(torch.finfo(size.dtype).tiny), miss).amax(-1)


def static_update(
    W: Tensor, Z: Tensor, dZ: Tensor, *, ridge: float = 0.0, cut: float | None = None, name: str = ""
) -> Solution:
    """`ΔW = W ΔZ Z⁺`: one update for all query tokens.

    **Arguments:**

    - `W`: the matrix that reads the inputs, shape `(..., out, in)`.
    - `Z`: the tokens' inputs without the context, shape `(..., tokens, in)`.
    - `dZ`: what the context adds to each of them, same shape.
    - `ridge`, `cut`: see `least_squares`.

    **Returns:** a `Solution`, exact if and only if `ΔZ Z⁺Z = ΔZ`: always when the tokens are independent, so for
    at most `in` of them; beyond that it is the best update in the least-squares sense. (If `W` maps the remaining
    error to zero, its output is exact all the same; `exact` is about the inputs, so that it holds for every `W`.)

    **Example:**

    ```python
    import torch
    import inweights as iw

    torch.manual_seed(0)
    W, Z, dZ = (torch.randn(n, 4).double() for n in (5, 3, 3))  # three query tokens
    solution = iw.static_update(W, Z, dZ)
    print(bool(solution.exact), torch.allclose(Z @ W.mT + Z @ solution.update.dense().mT, (Z + dZ) @ W.mT))
    # prints True True
    ```
    """
    require_matrix(W)
    require_alike(W=W, Z=Z, dZ=dZ)
    require_last(W.shape[-1], "`W`", Z=Z, dZ=dZ)
    require_finite(W=W)
    return least_squares(Z, dZ, ridge=ridge, cut=cut, name=name).premultiplied(W)
