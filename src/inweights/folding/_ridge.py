"""`Ridge`: a weighted ridge regression over batches of tokens, and the best approximation of low rank."""

from __future__ import annotations

import warnings
from functools import cached_property

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.theory import Update, wide

_TRIES = 12
"""How often the penalty is raised tenfold before an error is raised."""


class RidgeFit:
    """The `M` that minimises `Σ w ‖M x − y‖² + λ mean(diag G) ‖M‖²`, where `G = Σ w x xᵀ`.

    - `penalty`: `λ`.
    - `rank`, `energy`: how its updates are cut; see `cut`.
    - `name`: its name in messages.
    """

    def __init__(
        self, penalty: float, rank: int | None = None, energy: float | None = None, name: str = "a matrix"
    ) -> None:
        self.penalty, self.rank, self.energy, self.name = penalty, rank, energy, name
        self.G: Tensor | None = None
        self.R: Tensor | None = None

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        """Adds tokens: `x (..., in)`, `y (..., out)`, `weight (...)`; those of weight 0 are ignored."""
        seen = weight > 0
        x, y = wide(x[seen]), wide(y[seen])
        weighted = x * weight[seen].to(x.dtype).unsqueeze(-1)
        G, R = weighted.mT @ x, y.mT @ weighted
        self.G = G if self.G is None else self.G.add_(G)
        self.R = R if self.R is None else self.R.add_(R)

    @cached_property
    def solved(self) -> tuple[Tensor, Tensor]:
        """`M (out, in)`, and the lower Cholesky factor `(in, in)` of the penalised `G`."""
        if self.G is None or self.R is None or not bool(self.G.isfinite().all()) or not bool(self.R.isfinite().all()):
            raise InputError(f"{self.name} cannot be fitted: its inputs or targets are missing, NaN or infinite.")
        size = float(self.G.diagonal().mean()) or 1.0
        penalty = self.penalty
        for _ in range(_TRIES):
            damped = self.G.clone()
            damped.diagonal().add_(penalty * size)
            L, broken = torch.linalg.cholesky_ex(damped)
            if not int(broken):
                if penalty > self.penalty:
                    outputs = f"The ridge of {self.penalty:.0e} is too small for {self.name}: {penalty:.0e} was taken."
                    warnings.warn(outputs, RuntimeWarning, stacklevel=2)
                return torch.cholesky_solve(self.R.mT, L).mT, L
            penalty *= 10
        raise InputError(f"{self.name} cannot be fitted: its inputs are too badly scaled for this precision.")

    def update(self, W: Tensor | None = None) -> Update:
        """`M`, or `W M` for a matrix `W (·, out)` that reads what `M` corrects; cut as asked."""
        M, L = self.solved
        return cut(M if W is None else wide(W) @ M, L, self.rank, self.energy)


def cut(D: Tensor, L: Tensor | None, rank: int | None = None, energy: float | None = None) -> Update:
    """The update of at most `rank` columns nearest to `D (out, in)` for inputs of the second moment `L Lᵀ`.

    It minimises `‖(D − D') L‖_F` (reduced-rank regression). `energy` asks for as few columns as keep this share of
    `‖D L‖_F²`, and `rank` is then the most that there may be. Without either, `D` itself in factors of its smaller
    side. `L = None` is the plain metric.
    """
    out, inside = D.shape
    if rank is None and energy is None:
        one = torch.eye(min(out, inside), dtype=D.dtype, device=D.device)
        return Update(one, D.mT) if out <= inside else Update(D, one)
    A = D if L is None else D @ L
    # The squared singular values, from the smaller of both Gram matrices; eigh sorts them upwards.
    values, vectors = torch.linalg.eigh(A @ A.mT if out <= inside else A.mT @ A)
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    kept = len(values) if rank is None else min(rank, len(values))
    if energy is not None:
        share = values.cumsum(0) / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
        kept = min(kept, int((share < energy).sum()) + 1)
    first = vectors[:, :kept]
    if out <= inside:  # A ≈ U Uᵀ A, so D ≈ U (Uᵀ D): the metric cancels
        return Update(first.contiguous(), D.mT @ first)
    back = first if L is None else torch.linalg.solve_triangular(L.mT, first, upper=True)
    return Update(A @ first, back.contiguous())
