"""Checks that every function of the theory makes before any work, and the precision it works in."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from inweights._errors import InputError, Problems


def wide(x: Tensor) -> Tensor:
    """`x` in a precision that norms and factorisations can be trusted in: at least float32."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def norm(x: Tensor) -> Tensor:
    """Euclidean norms over the last dimension, in at least float32, shape `(..., 1)`.

    Scaled by the largest entry first: squares of small or large activations would leave the range.
    """
    x = wide(x)
    largest = x.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    return largest * torch.linalg.vector_norm(x / largest, dim=-1, keepdim=True)


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of the tensors that have NaN or infinite entries."""
    return [name for name, t in tensors.items() if t.is_floating_point() and not bool(t.isfinite().all())]


def require_finite(**tensors: Tensor) -> None:
    """Raises `InputError` for NaN and infinite entries, which would otherwise spread to a wrong result unnoticed."""
    if broken := not_finite(tensors):
        names = ", ".join(f"`{name}`" for name in broken)
        raise InputError(
            f"{names} {'has' if len(broken) == 1 else 'have'} NaN or infinite entries: "
            "look for overflow before this point, or use a wider dtype."
        )


def require_alike(**tensors: Tensor) -> None:
    """All tensors must be floating point numbers of one dtype on one device: nothing is converted silently."""
    problems, kinds = Problems(), {(t.dtype, t.device) for t in tensors.values()}
    for name, t in tensors.items():
        problems.unless(
            t.is_floating_point(), f"`{name}` holds {_short(t.dtype)}: pass floating point numbers, as in `.double()`."
        )
    problems.stop()
    if len(kinds) > 1:
        output = ", ".join(f"`{name}` is {_short(t.dtype)} on {t.device}" for name, t in tensors.items())
        raise InputError(f"{output}: convert them to one dtype and device with `.to(...)`.")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def require_matrix(W: Tensor) -> None:
    """`W` must be a matrix, or a batch of them."""
    if W.ndim < 2:
        raise InputError(f"`W` has shape {tuple(W.shape)}, but must be a matrix: (..., out, in).")


def require_last(size: int, of: str, **tensors: Tensor) -> None:
    """The last dimension of each of `tensors` must be `size`, the width of whatever `of` names."""
    problems = Problems()
    for name, t in tensors.items():
        problems.unless(
            t.ndim > 0 and t.shape[-1] == size,
            f"`{name}` has shape {tuple(t.shape)}, but its last dimension must be {size} to fit {of}.",
        )
    problems.stop()


def require_broadcast(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of leading dimensions that must broadcast together."""
    try:
        return tuple(torch.broadcast_shapes(*shapes.values()))
    except RuntimeError:
        output = ", ".join(f"`{name}` {shape}" for name, shape in shapes.items())
        raise InputError(f"Leading dimensions do not broadcast: {output}; make them equal or 1.") from None


def matvec(W: Tensor, x: Tensor) -> Tensor:
    """`W x` for matrices `(..., out, in)` and vectors `(..., in)` whose leading dimensions broadcast.

    One matrix for many vectors is one matrix product, not many small ones.
    """
    if W.ndim == 2:
        return x @ W.mT
    if W.shape[-3] == 1 and x.ndim >= 2:
        return x @ W.squeeze(-3).mT
    return (W @ x.unsqueeze(-1)).squeeze(-1)
