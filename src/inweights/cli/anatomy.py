"""`inweights anatomy`: which blocks can be patched, and how."""

from __future__ import annotations

from dataclasses import asdict

import typer

from inweights.cli._model import Device, ModelName, open_model
from inweights.cli._output import Json, emit, say, table


def anatomy(model: ModelName = "smollm2", device: Device = "auto", as_json: Json = False) -> None:
    """Show which blocks of a model can be patched in place of a context, with reasons where they cannot."""
    from inweights.models import device_names

    loaded = open_model(model, "float32", device, quiet=as_json)
    result = loaded.anatomy
    if as_json:
        emit(
            {
                "blocks": [asdict(b) for b in result.blocks],
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
        table(("block", "input controls", "output control", "tail"), rows)
        say("Supported: any context." if result.supported else "Not supported: the last block cannot be patched.")
    if not result.supported:
        raise typer.Exit(1)
