"""The option `--device` of the lab and the ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from inweights._errors import InputError

Where = Annotated[str, typer.Option(help="cpu, cuda, cuda:N, or auto (cuda if there is one).")]


def usable(device: str) -> str:
    """The device of a name, among those with float64, which measurements use. Raises an error if it is missing."""
    import torch

    from inweights.models import choose_device

    if device == "spread":
        raise InputError("--device is 'spread', but these models are small: use auto, cpu, cuda or cuda:N.")
    return choose_device(device, torch.float64)
