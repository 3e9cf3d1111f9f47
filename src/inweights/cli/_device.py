"""Where the lab and the ledger compute."""

from __future__ import annotations

from inweights._errors import InputError


def usable(device: str) -> None:
    """Refuses a device that is not there."""
    import torch

    if device not in ("cpu", "cuda"):
        raise InputError(f"--device is {device!r}, but must be cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device is 'cuda', but torch sees no GPU here: leave it out.")
