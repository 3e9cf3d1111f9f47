"""`Update`: a low-rank change of one matrix, kept as factors; the dense matrix is formed by `dense` alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import EllipsisType

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.theory._checks import require_alike, require_broadcast, require_last, wide

Index = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]


@dataclass(frozen=True, eq=False)
class Update:
    """The change `ΔW = u vᵀ` of a matrix `W`, for any number of matrices at once.

    **Arguments:**

    - `u`: left factor, shape `(..., out, r)`.
    - `v`: right factor, shape `(..., in, r)`. Its leading dimensions need only broadcast against those
      of `u`: the updates of all tokens of a prompt share one `v`, which is stored once.
    - `name`: the parameter that the update belongs to, as in `module.named_parameters()`; may be empty.

    An update is a value: every operation returns a new one. Norms and ranks come from the factors,
    in at least float32.
    """

    u: Tensor
    v: Tensor
    name: str = ""

    def __post_init__(self) -> None:
        if self.u.ndim < 2 or self.v.ndim < 2 or self.u.shape[-1] != self.v.shape[-1]:
            raise InputError(
                f"`u` {tuple(self.u.shape)} and `v` {tuple(self.v.shape)} are not the factors of an update: "
                "they must be (..., out, r) and (..., in, r) with the same r."
            )
        require_alike(u=self.u, v=self.v)
        require_broadcast(u=tuple(self.u.shape[:-2]), v=tuple(self.v.shape[:-2]))

    # --- properties ---------------------------------------------------------------------------------

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading dimensions: one matrix for each of their entries."""
        return tuple(torch.broadcast_shapes(self.u.shape[:-2], self.v.shape[:-2]))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the dense matrices would have: `(..., out, in)`."""
        return (*self.batch, self.u.shape[-2], self.v.shape[-2])

    @property
    def columns(self) -> int:
        """The number of factor columns: an upper bound on the rank."""
        return self.u.shape[-1]

    @property
    def nbytes(self) -> int:
        """Bytes that the factors occupy; a broadcast dimension is stored once."""
        return sum(min(t.nbytes, t.untyped_storage().nbytes()) for t in (self.u, self.v))

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The tensors it is made of: `(u, v)`."""
        return self.u, self.v

    def remade(self, *factors: Tensor) -> Update:
        """The update of the same parameter with other factors."""
        u, v = factors
        return Update(u, v, self.name)

    def singular_values(self) -> Tensor:
        """The non-trivial singular values, largest first, shape `(..., min(out, in, r))`.

        With `u = Q_u R_u` and `v = Q_v R_v` they are those of the small matrix `R_u R_vᵀ`.
        """
        u, v = wide(self.u), wide(self.v)
        if self.columns == 1:
            return (torch.linalg.vector_norm(u, dim=-2) * torch.linalg.vector_norm(v, dim=-2)).expand(*self.batch, 1)
        core = torch.linalg.qr(u).R @ torch.linalg.qr(v).R.mT
        return torch.linalg.svdvals(core)

    def rank(self, rtol: float | None = None) -> Tensor:
        """The numeric rank: how many singular values exceed `rtol` times the largest, shape `(...)`.

        `rtol` defaults to the machine epsilon times the larger side, as in `torch.linalg.matrix_rank`.
        """
        s = self.singular_values()
        if rtol is None:
            rtol = torch.finfo(s.dtype).eps * max(self.shape[-2:])
        return ((s > rtol * s[..., :1]) & (s > 0)).sum(-1)

    def frobenius(self) -> Tensor:
        """`‖ΔW‖_F`, shape `(...)`."""
        return torch.linalg.vector_norm(self.singular_values(), dim=-1)

    def spectral(self) -> Tensor:
        """`‖ΔW‖₂`, the largest singular value, shape `(...)`."""
        s = self.singular_values()
        return s[..., 0] if s.shape[-1] else s.new_zeros(self.batch)

    def inner(self, other: Update) -> Tensor:
        """The Frobenius inner product `⟨ΔW, ΔW'⟩ = Σ (uᵀu') ∘ (vᵀv')`, shape `(...)`."""
        self._require_same_matrix(other)
        left = wide(self.u).mT @ wide(other.u)
        right = wide(self.v).mT @ wide(other.v)
        return (left * right).sum((-2, -1))

    def alignment(self, other: Update) -> Tensor:
        """The cosine of the angle between two updates, shape `(...)`; 0 where one of them is zero."""
        size = self.frobenius() * other.frobenius()
        return torch.where(size > 0, self.inner(other) / size.clamp_min(torch.finfo(size.dtype).tiny), 0.0)

    # --- what it does -------------------------------------------------------------------------------

    def __call__(self, x: Tensor) -> Tensor:
        """`ΔW x` for vectors `x` of shape `(..., in)`, without forming `ΔW`; shape `(..., out)`.

        The leading dimensions of `x` broadcast against the update's.
        """
        require_last(self.shape[-1], "the update", x=x)
        require_alike(x=x, update=self.u)
        if not self.batch:
            return x @ self.v @ self.u.mT
        require_broadcast(x=tuple(x.shape[:-1]), update=self.batch)
        return (x.unsqueeze(-2) @ self.v @ self.u.mT).squeeze(-2)

    def dense(self) -> Tensor:
        """The matrices themselves, shape `(..., out, in)`. Costs what the factors save: for small sizes."""
        return self.u @ self.v.mT

    def added_to(self, W: Tensor) -> Tensor:
        """`W + ΔW`, dense, rounded once to the dtype of `W`."""
        if W.shape[-2:] != self.shape[-2:]:
            raise InputError(
                f"`W` has shape {tuple(W.shape)}, but the update is for matrices of shape {self.shape[-2:]}."
            )
        return (wide(W) + wide(self.u) @ wide(self.v).mT).to(W.dtype)

    # --- algebra ------------------------------------------------------------------------------------

    def __add__(self, other: Update) -> Update:
        """`ΔW + ΔW'`. Columns add up, unless both share one `v`: then the rank does not grow."""
        self._require_same_matrix(other)
        if _is_one(self.v, other.v):
            return dataclasses.replace(self, u=self.u + other.u)
        return dataclasses.replace(self, u=_beside(self.u, other.u), v=_beside(self.v, other.v))

    def __neg__(self) -> Update:
        return dataclasses.replace(self, u=-self.u)

    def __sub__(self, other: Update) -> Update:
        return self + (-other)

    def __mul__(self, factor: float | Tensor) -> Update:
        """The update at another strength; a tensor `factor` has the shape of the leading dimensions."""
        if isinstance(factor, Tensor):
            require_broadcast(factor=tuple(factor.shape), update=self.batch)
            factor = factor.to(self.u.dtype)[..., None, None]
        return dataclasses.replace(self, u=self.u * factor)

    __rmul__ = __mul__

    def __truediv__(self, factor: float | Tensor) -> Update:
        return self * (1 / factor)

    def random_like(self, generator: torch.Generator) -> Update:
        """A random update of the same parameter, columns and Frobenius norms: the negative control of most claims."""
        noise = (torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f.device) for f in self.factors)
        other = self.remade(*noise)
        size = self.frobenius()
        return other * torch.where(size > 0, size / other.frobenius(), 0.0)

    def __matmul__(self, other: Update) -> Update:
        """The matrix product `ΔW ΔW'`, of the smaller number of columns."""
        require_last(self.shape[-1], "the left update", other=other.u.mT)
        middle = self.v.mT @ other.u
        if self.columns <= other.columns:
            return dataclasses.replace(self, v=other.v @ middle.mT)
        return dataclasses.replace(self, u=self.u @ middle, v=other.v)

    def compose(self, other: Update) -> Update:
        """One change after another: `(I + ΔW)(I + ΔW') = I + ΔW.compose(ΔW')`."""
        return self + other + self @ other

    def premultiplied(self, W: Tensor) -> Update:
        """`W ΔW`: what the map `I + ΔW` of the input does to a matrix `W` that reads it."""
        require_last(self.shape[-2], "the update's left side", W=W)
        return dataclasses.replace(self, u=W @ self.u)

    @property
    def mT(self) -> Update:  # noqa: N802  (torch's own name)
        """The transposed update, for layers that store `Wᵀ`."""
        return dataclasses.replace(self, u=self.v, v=self.u)

    def named(self, name: str) -> Update:
        """The same update, belonging to the parameter `name`."""
        return dataclasses.replace(self, name=name)

    def to(self, target: torch.dtype | torch.device | str) -> Update:
        """The factors in another dtype or on another device."""
        return dataclasses.replace(self, u=self.u.to(target), v=self.v.to(target))

    def __getitem__(self, index: Index) -> Update:
        """Some of the updates, by their leading dimensions. A shared `v` stays shared."""
        if not self.batch:
            raise InputError("This update has no leading dimensions: there is nothing to pick from.")
        picks = index if isinstance(index, tuple) else (index,)
        if sum(p is not ... for p in picks) > len(self.batch):
            raise InputError(
                f"`[{len(picks)} indices]` is too many: this update has leading dimensions {self.batch}; "
                "its matrices are in `.dense()`."
            )
        # Callers index the leading dimensions only: never the last two of the factors, also not through `...`.
        index = (*picks, slice(None), slice(None)) if ... in picks else picks
        # `expand` makes views: a broadcast dimension costs no memory.
        u, v = (f.expand(*self.batch, *f.shape[-2:])[index] for f in (self.u, self.v))
        return dataclasses.replace(self, u=u, v=v)

    def __repr__(self) -> str:
        name = f" of {self.name}" if self.name else ""
        return f"Update{self.shape}{name}, {self.columns} column(s), {self.u.dtype}".replace("torch.", "")

    def _require_same_matrix(self, other: Update) -> None:
        if self.shape[-2:] != other.shape[-2:]:
            raise InputError(
                f"Updates of matrices of shapes {self.shape[-2:]} and {other.shape[-2:]} do not go together."
            )
        if self.name != other.name:
            raise InputError(
                f"These are updates of two parameters, {self.name!r} and {other.name!r}: "
                "rename one with `.named(...)` if that is meant."
            )
        require_alike(self=self.u, other=other.u)
        require_broadcast(self=self.batch, other=other.batch)


def _is_one(a: Tensor, b: Tensor) -> bool:
    """Whether two factors are the same memory, seen in the same way."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def _beside(left: Tensor, right: Tensor) -> Tensor:
    """Columns of two factors side by side, their leading dimensions broadcast."""
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return torch.cat([left.expand(*batch, *left.shape[-2:]), right.expand(*batch, *right.shape[-2:])], -1)
