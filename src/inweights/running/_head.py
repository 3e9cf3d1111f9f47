"""Running a model so that only the answers' rows reach its head, and no other logits are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from torch import Tensor, nn

from inweights._errors import InputError
from inweights.running._hidden import hidden, signature
from inweights.running._hooks import hooked


def pick(h: Tensor, index: Tensor) -> Tensor:
    """Some rows of each text: `(b, T, d)` and `(b, R)` to `(b, R, d)`."""
    return h.gather(1, index.unsqueeze(-1).expand(-1, -1, h.shape[-1]))


def last_logits(net: nn.Module, rows: int = 1) -> dict[str, int]:
    """The arguments with which a forward computes the logits of its last tokens alone, if the model can: those of a
    long context take more memory than all the rest."""
    return {"logits_to_keep": rows} if "logits_to_keep" in signature(net) else {}


def head(net: nn.Module) -> nn.Module:
    """The module that computes the logits."""
    module = cast(Any, net).get_output_embeddings()
    if not isinstance(module, nn.Module):
        raise InputError("This model has no matrix of its own that makes the logits.")
    return module


@contextmanager
def at_head(net: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """While active, the head is given `change(x)` instead of the last hidden states `x`, `(b, T, d)`.

    Operations behind the head (scaling, soft caps) are applied by the model as usual.
    """

    def changed(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return (change(args[0]), *args[1:]), kwargs

    with hooked(before=[(head(net), changed)]):
        yield


@contextmanager
def block_outputs(net: nn.Module, names: Iterable[str], keep: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """While active, a forward appends `keep(h)` of the output `h` of each named block to the list, block by block."""
    outputs: list[Tensor] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        outputs.append(keep(hidden(out)))

    with hooked(after=[(net.get_submodule(name), note) for name in names]):
        yield outputs
