"""float64 throughout: the casts to float32 that some models make in norms, softmax or routers are prevented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_LOW = (torch.float32, torch.bfloat16, torch.float16)


# Products do not promote their arguments, as sums do: a factor that stayed float64 meets one made in float32.
_PRODUCTS = (
    torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm, torch.mm, torch.Tensor.mm,
)  # fmt: skip


def _levelled(args: tuple[Any, ...]) -> tuple[Any, ...]:
    if not any(isinstance(a, Tensor) and a.dtype == torch.float64 for a in args):
        return args
    return tuple(a.double() if isinstance(a, Tensor) and a.dtype in _LOW else a for a in args)


class KeepFloat64(TorchFunctionMode):
    """While active, casts of float64 tensors to lower precision do nothing.

    Several families compute norms, softmax or routers in float32 whatever their weights are, which caps any
    equality at 1e-7. No names are checked: every cast is intercepted, and `casts` counts those that were prevented.
    """

    def __init__(self) -> None:
        super().__init__()
        self.casts = 0
        self._before = torch.float32

    def __enter__(self) -> Any:
        # Constants that a model creates during the forward must have the range of float64.
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        torch.set_default_dtype(self._before)
        super().__exit__(*error)

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in _PRODUCTS:
            args = _levelled(args)
        first = args[0] if args else kwargs.get("input")
        if not isinstance(first, Tensor) or first.dtype != torch.float64:
            return func(*args, **kwargs)
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            self.casts += 1
            return first
        if func in (torch.Tensor.to, torch.Tensor.type, torch.Tensor.type_as) or kwargs.get("dtype") in _LOW:
            args, kwargs = self._kept(func, args, kwargs)
        return func(*args, **kwargs)

    def _kept(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def keep(value: Any) -> Any:
            if isinstance(value, torch.dtype) and value in _LOW:
                self.casts += 1
                return torch.float64
            if func in (torch.Tensor.to, torch.Tensor.type_as) and isinstance(value, Tensor) and value.dtype in _LOW:
                self.casts += 1
                return value.to(torch.float64)
            return value

        rest = tuple(keep(a) if isinstance(a, torch.dtype | Tensor) else a for a in args[1:])
        return (args[0], *rest), {k: keep(v) if k in ("dtype", "other") else v for k, v in kwargs.items()}


def full_precision(net: nn.Module) -> AbstractContextManager[Any]:
    """`KeepFloat64` where the model is in float64; nothing otherwise."""
    return KeepFloat64() if next(net.parameters()).dtype == torch.float64 else nullcontext()
