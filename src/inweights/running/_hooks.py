"""`hooked`: functions that run before and after the forwards of modules, removed when their context ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

Before = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]
"""`before(module, args, kwargs)`; returns `None`, or other `(args, kwargs)`."""
After = Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], Any]
"""`after(module, args, kwargs, output)`; returns `None`, or another output."""


class Stop(Exception):  # noqa: N818  (no error: it ends a forward whose rest is not needed)
    """Raised in a hook to leave a forward."""


@contextmanager
def hooked(
    *, before: Iterable[tuple[nn.Module, Before]] = (), after: Iterable[tuple[nn.Module, After]] = ()
) -> Iterator[None]:
    """While active, each function runs before or after every forward of its module."""
    with ExitStack() as stack:
        for module, function in before:
            stack.callback(module.register_forward_pre_hook(function, with_kwargs=True).remove)
        for module, following in after:
            stack.callback(module.register_forward_hook(following, with_kwargs=True).remove)
        yield


@contextmanager
def standing_in(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """While active, the module's forward is another function."""
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:  # accelerate keeps a forward of its own there
            module.forward = own
