"""The implicit dynamics: how the weights move while the context is read, token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.theory._checks import (
    matvec,
    norm,
    require_alike,
    require_broadcast,
    require_finite,
    require_last,
    require_matrix,
    wide,
)
from inweights.theory._implicit import implicit_update
from inweights.theory._update import Update


@dataclass(frozen=True, eq=False)
class GradientPath:
    """**Proposition 3.1.** Reading tokens is online gradient descent on linear losses.

    `W_{i+1} = W_i − h ∇_W L_i(W_i)` with `L_i(W) = trace(Δ_iᵀ W)`, `h = 1/‖A(x)‖²` and
    `Δ_i = W_0 (A(c_1…c_i, x) − A(c_1…c_{i+1}, x)) A(x)ᵀ`.

    - `W0`: the weights before the context, shape `(..., out, in)`.
    - `updates`: `W_i − W_0` for `i = 0 … n`, batch `(..., n+1)`; all share the right factor
      `A(x)/‖A(x)‖²`, which is stored once.
    - `gradients`: `Δ_i` for `i = 0 … n−1`, batch `(..., n)`.
    - `h`: the step size, shape `(...)`.
    """

    W0: Tensor
    updates: Update
    gradients: Update
    h: Tensor

    def losses(self, W: Update | None = None) -> Tensor:
        """`L_i(W_i)` for `i = 0 … n−1`, shape `(..., n)`; or `L_i(W_0 + W)` at another point `W`."""
        u, v = wide(self.gradients.u), wide(self.gradients.v)
        at_start = (u * (wide(self.W0).unsqueeze(-3) @ v)).sum((-2, -1))
        moved = self.updates[..., :-1] if W is None else W
        return at_start + self.gradients.inner(moved)

    def increments(self) -> Tensor:
        """`‖W_{i+1} − W_i‖_F` for `i = 0 … n−1`, shape `(..., n)`: what each token adds."""
        return self.h.unsqueeze(-1) * self.gradients.frobenius()


def gradient_path(W: Tensor, prefixes: Tensor, *, name: str = "") -> GradientPath:
    """The path of Proposition 3.1 from the contextual layer's outputs at every prefix.

    Where `A` knows positions, the outputs must be those of one and the same query position, as
    `ContextualLayer.prefixes` gives them: tokens not read yet are masked, and `x` does not move.

    **Arguments:**

    - `W`: `W_0`, shape `(..., out, in)`.
    - `prefixes`: `A(x), A(c_1, x), …, A(c_1…c_n, x)`, shape `(..., n+1, in)`.

    **Returns:** a `GradientPath`, in factors: `O(n (out + in))` numbers, not `O(n · out · in)`.

    **Example:**

    ```python
    import torch
    import inweights as iw

    torch.manual_seed(0)
    W, prefixes = torch.randn(5, 4).double(), torch.randn(7, 4).double()  # A(x), A(c_1, x), …: six tokens
    path = iw.gradient_path(W, prefixes)
    print(type(path).__name__)
    # prints GradientPath
    ```
    """
    _require_path("prefixes", prefixes, W)
    start = prefixes[..., :1, :]
    updates = implicit_update(W.unsqueeze(-3), start, prefixes - start, name=name)
    back = matvec(W.unsqueeze(-3), prefixes[..., :-1, :] - prefixes[..., 1:, :])
    gradients = Update(back.unsqueeze(-1), start.unsqueeze(-1), name)
    return GradientPath(W, updates, gradients, norm(start)[..., 0, 0] ** -2)


@dataclass(frozen=True, eq=False)
class ProductPath:
    """**Appendix B.** The other dynamics: tokens are peeled off the front, one factor each.

    `W_i = W_{i−1} (I + h_i A_i)`, `A_i = (A(c_i…c_n, x) − A(c_{i+1}…c_n, x)) A(c_{i+1}…c_n, x)ᵀ`,
    `h_i = 1/‖A(c_{i+1}…c_n, x)‖²`. At every suffix `T_{W_i}(c_{i+1}…c_n, x) = T_{W_0}(C, x)`.

    - `total`: `W_n − W_0`, batch `(...)`, one column for each token. Not of rank 1 when `n ≥ 2`.
    """

    total: Update

    def update(self, i: int) -> Update:
        """`W_i − W_0`: the first `i` columns of the total."""
        if not 0 <= i <= self.total.columns:
            raise InputError(f"`i` is {i}, but the context has {self.total.columns} tokens to peel off.")
        return Update(self.total.u[..., :i], self.total.v[..., :i], self.total.name)


def product_path(W: Tensor, suffixes: Tensor, *, name: str = "") -> ProductPath:
    """The path of Appendix B from the contextual layer's outputs at every suffix.

    **Arguments:**

    - `W`: `W_0`, shape `(..., out, in)`.
    - `suffixes`: `A(c_1…c_n, x), A(c_2…c_n, x), …, A(x)`, shape `(..., n+1, in)`; none zero but the first.

    The factors are `W_i = W_{i−1} + u_i v_iᵀ` with `v_i = h_i A(c_{i+1}…c_n, x)` and `u_i = W_{i−1} δ_i`.
    Since `W_{i−1} = W_0 + Σ_{j<i} u_j v_jᵀ`, the `u_i` solve one triangular system, all at once.

    **Example:**

    ```python
    import torch
    import inweights as iw

    torch.manual_seed(0)
    W, suffixes = torch.randn(5, 4).double(), torch.randn(7, 4).double()  # A(c_1…c_6, x), …, A(x)
    path = iw.product_path(W, suffixes)
    print(type(path).__name__)
    # prints ProductPath
    ```
    """
    _require_path("suffixes", suffixes, W)
    a, deltas = wide(suffixes[..., 1:, :]), wide(suffixes[..., :-1, :] - suffixes[..., 1:, :])
    length = norm(a)
    if bool((length == 0).any()):
        raise InputError(
            "`suffixes` has a zero A(c_{i+1}…c_n, x), so no weight update can act on it: "
            "the product form needs a non-zero output at every suffix."
        )
    v = (a / length / length).mT  # (..., in, n)
    # Column i of U = W_0 δ + U N, where N[j, i] = v_jᵀ δ_i for j < i: so U (I − N) = W_0 δ.
    N = torch.triu(v.mT @ deltas.mT, diagonal=1)
    identity = torch.eye(N.shape[-1], dtype=N.dtype, device=N.device)
    u = torch.linalg.solve_triangular(identity - N, wide(W) @ deltas.mT, upper=True, left=False, unitriangular=True)
    return ProductPath(Update(u, v, name).to(suffixes.dtype))


def _require_path(name: str, outputs: Tensor, W: Tensor) -> None:
    require_matrix(W)
    require_alike(**{"W": W, name: outputs})
    if outputs.ndim < 2:
        raise InputError(f"`{name}` has shape {tuple(outputs.shape)}, but must be (..., n+1, in).")
    require_last(W.shape[-1], "`W`", **{name: outputs})
    if outputs.shape[-2] < 2:
        raise InputError(f"`{name}` holds A(x) alone: the context is empty, so there is no path to follow.")
    require_broadcast(**{"W": tuple(W.shape[:-2]), name: tuple(outputs.shape[:-2])})
    require_finite(**{"W": W, name: outputs})
