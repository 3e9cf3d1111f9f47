"""`Tape`: records every product of an activation with a parameter, whatever module or function computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True, eq=False)
class Product:
    """`out = x Mᵀ`, where `M` is a parameter, its transpose, or one or all of its experts.

    - `name`: the parameter.
    - `transposed`: whether it is stored as `(in, out)`.
    - `experts`: which entries of a parameter `(experts, ·, ·)` take part; `None` for a plain matrix.
    - `x`: shape `(experts, rows, in)`; one "expert" for a plain matrix.
    - `made`: the result in the shape that the model uses; `rows` reshapes it to `(experts, rows, out)`.
    """

    name: str
    transposed: bool
    experts: range | None
    x: Tensor
    made: Tensor

    def rows(self, t: Tensor) -> Tensor:
        """`made`, or a gradient of its shape, as `(experts, rows, out)`."""
        return t.reshape(self.x.shape[0], -1, t.shape[-1])

    def at(self, rows: Tensor) -> Product:
        """The same product of some rows, as copies."""
        return replace(self, x=self.x[:, rows], made=self.rows(self.made)[:, rows])


class Tape(TorchFunctionMode):
    """Records the products with some parameters of a module while it runs.

    - `watched`: parameter name to tensor; products with others are not recorded.
    - `change`: called with each product before its result is used; may return another result. This is for *solving*:
      proofs run without any tape.
    - `rows`: hold only these rows of the factors and results, `(k,)`; all of them by default. Those of a long
      context, over all blocks, take more memory than the model itself.
    """

    def __init__(
        self,
        watched: Mapping[str, Tensor],
        change: Callable[[Product], Tensor | None] | None = None,
        rows: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.products: list[Product] = []
        self._change, self._rows = change, rows
        # A view shares the storage of its parameter: that is how slices and transposes are recognised.
        self._home = {p.untyped_storage().data_ptr(): (name, p) for name, p in watched.items()}

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        reader = _READERS.get(func)
        if reader is None or not isinstance(out, Tensor):
            return out
        product = self._product(*reader(*args, **(kwargs or {})), out)
        if product is None:
            return out
        if self._change is not None:
            changed = self._change(product)
            if changed is not None:
                product = replace(product, made=changed.reshape(out.shape))
        self.products.append(product if self._rows is None else product.at(self._rows))
        # A leaf of the graph may not be changed in place, as some models do with their activations.
        return product.made if self._change is None else product.made.clone()

    def _product(self, x: Tensor, W: Tensor, flipped: bool, out: Tensor) -> Product | None:
        result = self._home.get(W.untyped_storage().data_ptr())
        if result is None:
            return None
        name, p = result
        place = _place(W, p)
        if place is None:
            return None
        experts, turned = place
        groups = 1 if W.ndim == 2 else W.shape[0]
        return Product(
            name,
            flipped != turned,
            experts,
            x.reshape(groups, -1, x.shape[-1]),
            out,
        )


def _place(W: Tensor, p: Tensor) -> tuple[range | None, bool] | None:
    """Which experts of `p` the view `W` holds, and whether it is transposed; `None` if it is only a part of one."""
    if W.dtype != p.dtype or not p.is_contiguous() or p.ndim not in (2, 3):
        return None
    rows, columns = p.shape[-2:]
    if W.shape[-2:] == (rows, columns) and W.stride()[-2:] == (columns, 1):
        turned = False
    elif W.shape[-2:] == (columns, rows) and W.stride()[-2:] == (1, columns):
        turned = True
    else:
        return None
    if p.ndim == 2:
        return (None, turned) if W.ndim == 2 else None
    first = (W.storage_offset() - p.storage_offset()) // (rows * columns)
    count = 1 if W.ndim == 2 else W.shape[0]
    return range(first, first + count), turned


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, bool]:
    return input, weight, False


def _matmul(input: Tensor, other: Tensor, **_: Any) -> tuple[Tensor, Tensor, bool]:
    return input, other, True


def _addmm(input: Tensor, *pair: Tensor, **named: Any) -> tuple[Tensor, Tensor, bool]:
    # The matrices of `baddbmm` are called batch1 and batch2.
    both = [*pair, *(named[k] for k in ("mat1", "batch1", "mat2", "batch2") if k in named)]
    return both[0], both[1], True


_READERS: dict[Any, Callable[..., tuple[Tensor, Tensor, bool]]] = {
    F.linear: _linear,
    **dict.fromkeys((torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), _matmul),
    **dict.fromkeys((torch.mm, torch.Tensor.mm, torch.bmm, torch.Tensor.bmm), _matmul),
    **dict.fromkeys((torch.addmm, torch.Tensor.addmm, torch.baddbmm, torch.Tensor.baddbmm), _addmm),
}


def matrices(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    """The parameters of a module that can take part in products, by name."""
    # Of tied parameters the last name counts: that of the head, not of the embedding.
    named = module.named_parameters(remove_duplicate=False)
    return {prefix + name: p for name, p in named if p.ndim in (2, 3)}
