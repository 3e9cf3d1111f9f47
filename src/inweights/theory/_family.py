"""All solutions of `ΔW a = W ΔA`: the theorem's update plus any matrix that maps `a` to zero."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.theory._checks import norm, require_last, wide
from inweights.theory._update import Update


def blind_to(B: Update, a: Tensor) -> Update:
    """The part of `B` that maps `a` to zero: `B (I − a aᵀ/‖a‖²)`.

    `a` has shape `(..., in)`; every `B` maps a zero `a` to zero, and is then returned as it is.
    """
    require_last(B.shape[-1], "the update", a=a)
    length = norm(a)
    unit = (wide(a) / length.clamp_min(torch.finfo(length.dtype).tiny)).unsqueeze(-1)
    v = wide(B.v)
    # Twice is enough: the second projection removes what rounding left of the first.
    for _ in range(2):
        v = v - unit @ (unit.mT @ v)
    return Update(B.u, v.to(B.v.dtype), B.name)


def family(update: Update, a: Tensor, B: Update) -> Update:
    """Another solution with the same effect on `a`: `ΔW + B (I − a aᵀ/‖a‖²)`.

    Every solution can be written so. When `update` is the theorem's, the two terms are orthogonal, hence
    `‖family(...)‖² = ‖ΔW‖² + ‖B(I − a aᵀ/‖a‖²)‖²`: none is smaller than the theorem's.

    **Example:**

    ```python
    import torch
    import inweights as iw

    W = torch.eye(2, dtype=torch.float64)
    a, delta = torch.tensor([1.0, 0.0]).double(), torch.tensor([0.0, 1.0]).double()
    update = iw.implicit_update(W, a, delta)
    other = iw.family(update, a, iw.Update(torch.ones(2, 1).double(), torch.ones(2, 1).double()))
    print(torch.allclose(other(a), update(a)), bool(other.frobenius() > update.frobenius()))
    # prints True True
    ```
    """
    return update + blind_to(B, a)
