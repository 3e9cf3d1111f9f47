"""`inweights anatomy`: which blocks can be patched, and how."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from inweights.cli._model import Device, ModelName, open_model
from inweights.cli._output import Json, emit, say, table, with_former

if TYPE_CHECKING:
    from inweights.models import Block


def anatomy(model: ModelName = "smollm2", device: Device = "auto", as_json: Json = False) -> None:
    """Show which blocks of a model can be patched in place of a context, with reasons where they cannot."""
    from inweights.models import device_names

    loaded = open_model(model, "float32", device, quiet=as_json)
    result = loaded.anatomy
    if as_json:
        emit(
            {
                "blocks": [_values(b) for b in result.blocks],
                "supported": result.supported,
                "device": device_names(loaded.model),
            }
        )
    else:

        def short(block: str, names: tuple[str, ...]) -> str:
            return " ".join(name.removeprefix(f"{block}.") for name in names) or "-"

        rows = [
            (
                b.name,
                short(b.name, tuple(c.name for c in b.inputs)),
                b.reason or short(b.name, b.adding),
                b.tail,
            )
            for b in result.blocks
        ]
        table(("block", "matrices that read the context's effect", "what adds to the output", "residual form"), rows)
        say("Supported: any context." if result.supported else "Not supported: the last block cannot be patched.")
    if not result.supported:
        raise typer.Exit(1)


def _values(block: Block) -> dict[str, Any]:
    """A block as JSON: `residual_form` is how its result joins the stream, `input_norm` the norm whose result the MLP
    reads, `adds_directly` whether the last matrix adds to the output as it is."""
    names = {"tail": "residual_form", "unit": "adds_directly", "entry": "input_norm"}
    return with_former({names.get(key, key): value for key, value in asdict(block).items()}, **names)
