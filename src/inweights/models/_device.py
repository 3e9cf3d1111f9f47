"""Where a model runs: the words that name a device, and what `auto` chooses."""

from __future__ import annotations

import re
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from inweights._errors import InputError, out_of_memory

SPREAD = "spread"
"""Over all devices of the machine, by accelerate."""

WORDS = "auto, cpu, cuda, cuda:N, mps or spread"
_NAME = re.compile(r"cpu|mps|cuda(:[0-9]{1,4})?")


def choose_device(device: str, dtype: torch.dtype) -> str:
    """The torch device of a word of `--device`, or `"spread"`; refuses what is not here.

    `auto` is CUDA if there is a GPU, otherwise MPS, otherwise the CPU; each must compute one small product in `dtype`
    first, as a driver can name a device that does not work. MPS has no float64, so that this goes to the CPU.
    """
    if device == "auto":
        return next((name for name in ("cuda", "mps") if not _broken(name, dtype)), "cpu")
    if device == SPREAD:
        if find_spec("accelerate") is None:
            raise InputError("`device` is 'spread', which needs the accelerate package: pip install accelerate.")
        return device
    here = ", ".join(present())
    if not _NAME.fullmatch(device):
        raise InputError(f"`device` is {device!r}, but must be {WORDS}; torch finds {here} here.")
    if not _is_present(device):
        raise InputError(f"`device` is {device!r}, but torch finds only {here} here: use one of these, or auto.")
    if device == "mps" and dtype == torch.float64:
        raise InputError("`device` is 'mps', which has no float64: use cpu, or --dtype float32.")
    reason = _broken(device, dtype)
    if reason:
        raise InputError(f"`device` is {device!r}, but a small product fails there ({reason}): use cpu.")
    return device


def present() -> list[str]:
    """The devices that torch detects on this machine."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def device_names(net: nn.Module) -> str:
    """The devices that hold a model's parameters: one, or several if it is spread."""
    return ", ".join(dict.fromkeys(str(p.device) for p in net.parameters()))


def describe_device(net: nn.Module) -> str:
    """The same for people: with the name of the GPU, or how many threads the CPU computes with."""
    first = next(net.parameters()).device
    if first.type == "cuda":
        about = torch.cuda.get_device_name(first)
    else:
        threads = torch.get_num_threads()
        about = f"{threads} thread{'s' if threads > 1 else ''}" if first.type == "cpu" else ""
    return device_names(net) + (f" ({about})" if about else "")


def to_float64(t: Tensor) -> Tensor:
    """In float64 on the same device, or on the CPU, where the device has no such numbers."""
    return (t.cpu() if t.device.type == "mps" else t).double()


def _is_present(device: str) -> bool:
    kind, _, index = device.partition(":")
    if index:
        return f"{kind}:{int(index)}" in present()
    return kind in {name.partition(":")[0] for name in present()}


def _broken(device: str, dtype: torch.dtype) -> str:
    """Why a device does not compute in this dtype; empty if it does."""
    if not _is_present(device):
        return "it is not here"
    if device == "mps" and dtype == torch.float64:
        return "it has no float64"
    try:
        ones = torch.ones(2, 2, device=device, dtype=dtype)
        right = bool(((ones @ ones).cpu() == 2).all())
    except (RuntimeError, TypeError, AssertionError) as error:
        if out_of_memory(error):  # it works, but is full: an error, and no reason to choose a slower device
            raise
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return "" if right else "its result is wrong"
