"""Two streams in one batch: the prompted one, and the patched one, in which the folded tokens are masked.

Row 0 reads everything; row 1 reads the same tokens with the folded ones masked. At every block the rank-1 updates are
computed that make row 1 equal to row 0: from the two rows, and applied to row 1 at once. One cache and one forward
serve both rows, so that a patched token costs little more than a prompted one. With a strength, every update is
multiplied by it and computed from what row 1 has become: 0 is the bare model, 1 the prompted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._anatomy import Anatomy
from inweights.running import Block, hidden, hooked, with_hidden
from inweights.theory import pseudoinverse


def twins(anatomy: Anatomy, model: nn.Module) -> str:
    """Why the streams of this model cannot run as twins; empty if they can."""
    for b in anatomy.blocks:
        if not b.supported or b.tail != "sum" or not b.unit:
            return f"{b.name} does not end in one last matrix whose result is added as it is"
        for c in b.inputs:
            if c.experts or not isinstance(owner(model, c.name), nn.Module):
                return f"{c.name} is not the matrix of a module"
    return ""


@contextmanager
def joined(model: nn.Module, anatomy: Anatomy, rows: slice, strength: float = 1.0) -> Iterator[None]:
    """While active, forwards of batch 2 patch row 1 at the positions `rows` of the sequence."""
    why = twins(anatomy, model)
    if why:
        raise InputError(f"The streams of this model cannot run side by side: {why}.")
    with ExitStack() as stack:
        for b in anatomy.blocks:
            stack.enter_context(_joined(model, b, rows, strength))
        yield


def _joined(model: nn.Module, block: Block, rows: slice, strength: float) -> AbstractContextManager[None]:
    inner: dict[str, Tensor] = {}

    def read(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Tensor:
        # ΔW = (W Δz) zᵀ/‖z‖², and W Δz is the difference of the outputs of the matrix in the two rows.
        z = args[0][1, rows]
        out = out.clone()
        out[1, rows] += (out[0, rows] - out[1, rows]) * (strength * (pseudoinverse(z) * z).sum(-1, keepdim=True))
        return out

    def last(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inner["h"] = args[0][1, rows]

    def output(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        y, h = hidden(out).clone(), inner["h"]
        y[1, rows] += (y[0, rows] - y[1, rows]) * (strength * (pseudoinverse(h) * h).sum(-1, keepdim=True))
        return with_hidden(out, y)

    readers = [(owner(model, c.name), read) for c in block.inputs]
    return hooked(
        before=[(owner(model, block.outputs[0].name), last)],
        after=[*readers, (model.get_submodule(block.name), output)],
    )


def owner(model: nn.Module, parameter: str) -> nn.Module:
    return model.get_submodule(parameter.rpartition(".")[0])
