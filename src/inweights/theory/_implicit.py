"""The theorem: what a part `Y` of the context does, written as a change of the weights.

Notation, as in "Learning without training" (arXiv 2507.16003): `a = A(C∖Y, x)` is the output of the contextual
layer without `Y`, `ΔA = A(C, x) − A(C∖Y, x)` is what `Y` adds to it.
"""

from __future__ import annotations

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
from inweights.theory._shift import Shift
from inweights.theory._update import Update


def rank_one(a: Tensor, target: Tensor, *, carrier: Tensor | None = None, name: str = "") -> Update:
    """A rank-1 update with `ΔW a = target`.

    **Arguments:**

    - `a`: the input that the update must act on, shape `(..., in)`; not zero.
    - `target`: what the update must add to the output, shape `(..., out)`.
    - `carrier`: any vector `v` with `vᵀa ≠ 0`, shape `(..., in)`; it is scaled to `vᵀa = 1`. Every choice
      gives an exact update. The default `v = a/‖a‖²` gives the one of smallest Frobenius norm, among
      matrices of *any* rank.

    **Returns:** `Update(target, v)`.

    **Example:**

    ```python
    import torch
    import inweights as iw

    a, target = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0, 1.0])
    print(torch.allclose(iw.rank_one(a, target)(a), target))
    # prints True
    ```
    """
    carrier = a if carrier is None else carrier
    require_alike(a=a, target=target, carrier=carrier)
    if a.ndim == 0 or target.ndim == 0:
        raise InputError("`a` and `target` must be vectors, (..., in) and (..., out): a number was passed.")
    require_last(a.shape[-1], "`a`", carrier=carrier)
    require_broadcast(a=tuple(a.shape[:-1]), target=tuple(target.shape[:-1]), carrier=tuple(carrier.shape[:-1]))
    require_finite(a=a, target=target, carrier=carrier)
    return _carried(a, target, carrier, name)


def _carried(a: Tensor, target: Tensor, carrier: Tensor, name: str) -> Update:
    # The carrier is scaled to length 1 first: ‖a‖² itself would underflow for small activations.
    length = norm(carrier)
    unit = wide(carrier) / length.clamp_min(torch.finfo(length.dtype).tiny)
    grip = (unit * wide(a)).sum(-1, keepdim=True)
    # A carrier that is orthogonal to `a` up to rounding cannot be scaled to vᵀa = 1 either.
    slipping = grip.abs() <= 8 * torch.finfo(grip.dtype).eps * norm(a)
    slipping |= grip.abs() < torch.finfo(a.dtype).tiny
    if bool(slipping.any()):
        raise InputError(_no_grip(a, slipping))
    v = (unit / grip).to(a.dtype)
    require_finite(u=target, v=v)  # what float32 holds may be too large for float16
    return Update(target.unsqueeze(-1), v.unsqueeze(-1), name)


def pseudoinverse(a: Tensor) -> Tensor:
    """`a/‖a‖²`, the Moore–Penrose inverse of a vector: `v` with `vᵀa = 1`, of smallest norm; `a` is `(..., in)`.

    The norm is scaled first, so that neither small nor massive activations leave the range of the dtype. Zero, NaN and
    infinite inputs raise `InputError`.
    """
    require_finite(a=a)
    return _carried(a, a[..., :1], a, "").v.squeeze(-1)


def _no_grip(a: Tensor, slipping: Tensor) -> str:
    where = "" if slipping.numel() == 1 else f" for {int(slipping.sum())} of {slipping.numel()} inputs"
    if bool((norm(a) < torch.finfo(a.dtype).tiny).any()):
        return (
            f"`a` = A(C∖Y, x) is zero{where}, so no weight update can act on it: keep a token that the "
            "layer sees, or use an output control."
        )
    return f"`carrier` is orthogonal to `a`{where}: choose a `v` with vᵀa ≠ 0, such as `a` itself."


def implicit_update(W: Tensor, a: Tensor, delta: Tensor, *, carrier: Tensor | None = None, name: str = "") -> Update:
    """**Theorem 2.2.** `ΔW(Y) = (W ΔA) aᵀ / ‖a‖²`, so that `(W + ΔW) A(C∖Y, x) = W A(C, x)`.

    **Arguments:**

    - `W`: the matrix that reads the contextual layer, shape `(..., out, in)`.
    - `a`: `A(C∖Y, x)`, shape `(..., in)`; not zero.
    - `delta`: `ΔA(Y)`, shape `(..., in)`.
    - `carrier`: another member of the family of rank-1 solutions, see `rank_one`.

    **Returns:** an `Update` of rank 1 (0 where `W ΔA = 0`), the smallest in Frobenius norm unless a
    `carrier` is given.

    **Example:**

    ```python
    import torch
    import inweights as iw

    W = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    a, delta = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])  # A(C∖Y, x) and ΔA
    print(W @ a + iw.implicit_update(W, a, delta)(a), W @ (a + delta))
    # prints tensor([1., 2.]) tensor([1., 2.])
    ```
    """
    require_matrix(W)
    require_alike(W=W, a=a, delta=delta)
    require_last(W.shape[-1], "`W`", a=a, delta=delta)
    require_broadcast(W=tuple(W.shape[:-2]), a=tuple(a.shape[:-1]), delta=tuple(delta.shape[:-1]))
    require_finite(W=W, a=a, delta=delta)
    if carrier is not None:
        return rank_one(a, matvec(W, delta), carrier=carrier, name=name)
    return _carried(a, matvec(W, delta), a, name)


def residual_bias(delta: Tensor, *, name: str = "") -> Shift:
    """What a skip connection lacks without `Y`, added by the last bias: `Δb' = δ`.

    `δ` is `ΔA` in the paper's residual block, and `v_C − v`, the difference of the residual stream
    before the MLP, in a pre-norm block.
    """
    require_finite(delta=delta)
    return Shift(delta, name)


def residual_matrix(h: Tensor, delta: Tensor, *, name: str = "") -> Update:
    """The same vector added by the last matrix: `ΔW' = δ hᵀ / ‖h‖²`.

    `h` is the inner activation *after* the input update, which is that of the full context. (The activation of
    the reduced context no longer occurs once the input update is applied.)
    """
    return rank_one(h, delta, name=name)


def residual_scale(n: Tensor, delta: Tensor, *, name: str = "") -> Shift:
    """The same vector added by the scale of a norm on the branch: `Δm = δ ⊘ n`.

    `n` is the normalised branch of the full context, shape `(..., width)`: `m ⊙ n` is what the branch
    adds to the stream. Every coordinate of `n` must differ from zero.
    """
    require_last(n.shape[-1], "`n`", delta=delta)
    return Shift(quotient(delta, n), name)


def quotient(delta: Tensor, n: Tensor) -> Tensor:
    """`δ ⊘ n`: what a factor of `n` must change by to add `δ`; 0 where `δ` is 0. Both `(..., width)`.

    Raises `InputError` where a coordinate of `n` is zero and that of `δ` is not, and where the quotient overflows.
    """
    require_finite(n=n, delta=delta)
    dead = (n == 0) & (delta != 0)
    if bool(dead.any()):
        raise InputError(
            f"`n` is zero in {int(dead.sum())} of {n.numel()} coordinates, where no scale can add anything: "
            "use the last matrix or a bias as the output control."
        )
    result = torch.where(delta == 0, 0.0, delta / torch.where(n == 0, 1.0, n))
    require_finite(quotient=result)
    return result


def scalar_update(w: Tensor, full: Tensor, reduced: Tensor) -> Tensor:
    """The theorem in one dimension: `Γ = w (A(C, x) − A(C∖Y, x)) / A(C∖Y, x)`.

    The implicit update is the relative change of the layer's output, times the weight. All arguments
    are numbers in tensors of shapes that broadcast.
    """
    require_finite(w=w, full=full, reduced=reduced)
    if bool((reduced == 0).any()):
        raise InputError("`reduced` = A(C∖Y, x) is zero, so no change of `w` can act on it.")
    return w * (full - reduced) / reduced
