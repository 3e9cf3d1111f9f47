"""Running a model so that only the answers' rows reach its head: logits where they are wanted, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models import Model
from inweights.models._hidden import signature


def pick(h: Tensor, index: Tensor) -> Tensor:
    """Some rows of each text: `(b, T, d)` and `(b, R)` to `(b, R, d)`."""
    return h.gather(1, index.unsqueeze(-1).expand(-1, -1, h.shape[-1]))


def last_logits(net: nn.Module, rows: int = 1) -> dict[str, int]:
    """What makes a forward form the logits of its last tokens alone, if the model can: those of a long context are
    larger than all the rest."""
    return {"logits_to_keep": rows} if "logits_to_keep" in signature(net) else {}


def head(model: Model) -> nn.Module:
    """The module that makes the logits."""
    found = cast(Any, model.model).get_output_embeddings()
    if not isinstance(found, nn.Module):
        raise InputError("This model has no matrix of its own that makes the logits.")
    return found


@contextmanager
def at_head(model: Model, change: Any) -> Iterator[None]:
    """While active, the head is given `change(x)` instead of the last hidden states `x`, `(b, T, d)`.

    What follows the head (scaling, soft caps) is the model's own, whatever rows it is given.
    """

    def hook(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (change(args[0]), *args[1:])

    handle = head(model).register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def block_outputs(model: Model, keep: Any) -> Iterator[list[Tensor]]:
    """While active, a forward leaves `keep(h)` of what each block says in the list, block by block."""
    from inweights.models._hidden import hidden

    said: list[Tensor] = []

    def hook(_: nn.Module, __: Any, out: Any) -> None:
        said.append(keep(hidden(out)))

    names = [b.name for b in model.anatomy.blocks if b.name]
    handles = [model.model.get_submodule(name).register_forward_hook(hook) for name in names]
    try:
        yield said
    finally:
        for handle in handles:
            handle.remove()
