"""`Lora`: the factors of one update for each matrix in the blocks of a model, to be fitted by gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from inweights._errors import InputError
from inweights.models import Model, is_transposed
from inweights.running import After, hooked
from inweights.theory import Update


def linear_modules(model: Model) -> list[str]:
    """The names of all plain matrices inside the blocks: what adapters can change."""
    from transformers.pytorch_utils import Conv1D

    names = [
        f"{block.name}.{name}"
        for block in model.anatomy.blocks
        if block.name
        for name, module in model.model.get_submodule(block.name).named_modules()
        if isinstance(module, nn.Linear | Conv1D)
    ]
    if not names:
        raise InputError("The blocks of this model have no plain matrices, so it cannot be folded.")
    return names


@dataclass(frozen=True)
class Group:
    """Matrices of one shape, `W` `(n, out, in)`, with the factors of their updates, `(n, out, r)` and `(n, r, in)`."""

    names: tuple[str, ...]
    transposed: bool
    W: Tensor
    B: Tensor
    A: Tensor


class Lora:
    """Updates `B A` of all matrices, `B` zero and `A` random at the start, or another start.

    Matrices of one shape are kept in one tensor: on a GPU, where launching kernels is what takes time, they are
    multiplied and stepped together. `merged` keeps a copy of the matrices themselves for that.
    """

    def __init__(
        self,
        model: Model,
        rank: int,
        seed: int = 0,
        start: Mapping[str, Update] | None = None,
        merged: bool = False,
    ) -> None:
        self.model, self.rank = model, rank
        generator = torch.Generator().manual_seed(seed)
        by_shape: dict[tuple[int, int, bool], list[str]] = {}
        for name in linear_modules(model):
            turned = is_transposed(model, name)
            shape = model.model.get_parameter(f"{name}.weight").shape
            out, in_ = shape[::-1] if turned else shape
            by_shape.setdefault((out, in_, turned), []).append(name)
        self.groups = []
        for (out, in_, turned), names in by_shape.items():
            r = min(rank, out, in_)
            A = (torch.rand(len(names), r, in_, generator=generator) * 2 - 1) / in_**0.5
            B = torch.zeros(len(names), out, r)
            for i, name in enumerate(names):
                if start and f"{name}.weight" in start:
                    A[i], B[i] = _balanced(start[f"{name}.weight"], r)
            W = torch.empty(0, 0, 0)
            if merged:
                W = torch.stack([model.model.get_parameter(f"{n}.weight").detach() for n in names])
            place = (t.to(model.device).requires_grad_() for t in (B, A))
            self.groups.append(Group(tuple(names), turned, W.mT if turned else W, *place))

    @property
    def parameters(self) -> list[Tensor]:
        return [t for g in self.groups for t in (g.B, g.A)]

    def updates(self) -> dict[str, Update]:
        """The fitted updates, by the name of the parameter."""
        return {
            f"{name}.weight": Update(g.B[i].detach().clone(), g.A[i].detach().mT.clone(), f"{name}.weight")
            for g in self.groups
            for i, name in enumerate(g.names)
        }

    def merged(self, **inputs: Any) -> Any:
        """The model's forward with `W + B A` in place of every `W`: few kernels, for a GPU."""
        new: dict[str, Tensor] = {}
        for g in self.groups:
            W = torch.baddbmm(g.W, g.B.to(g.W.dtype), g.A.to(g.W.dtype))
            for name, w in zip(g.names, W.unbind(0), strict=True):
                new[f"{name}.weight"] = w.mT if g.transposed else w
        return functional_call(self.model.model, new, kwargs=inputs)

    def beside(self, **inputs: Any) -> Any:
        """The model's forward with `B A x` added to every `W x`: little arithmetic, for a CPU."""
        with self._beside():
            return self.model.model(**inputs)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        def add(A: Tensor, B: Tensor) -> After:
            return lambda module, args, kwargs, out: out + args[0] @ A.mT.to(out.dtype) @ B.mT.to(out.dtype)

        hooks = [
            (self.model.model.get_submodule(name), add(A, B))
            for g in self.groups
            for name, A, B in zip(g.names, g.A.unbind(0), g.B.unbind(0), strict=True)
        ]
        with hooked(after=hooks):
            yield


def _balanced(update: Update, r: int) -> tuple[Tensor, Tensor]:
    """`A` `(r, in)` and `B` `(out, r)` of equal size, the leading directions of an update first."""
    qu, ru = torch.linalg.qr(update.u.float().cpu())
    qv, rv = torch.linalg.qr(update.v.float().cpu())
    U, s, Vt = torch.linalg.svd(ru @ rv.mT)
    k = min(r, len(s))
    A, B = torch.zeros(r, qv.shape[0]), torch.zeros(qu.shape[0], r)
    root = s[:k].sqrt()
    A[:k], B[:, :k] = root.unsqueeze(-1) * (Vt[:k] @ qv.mT), qu @ U[:, :k] * root
    return A, B
