"""The reader of safetensors files: the header is checked against the file before any tensor is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inweights._errors import InputError, shown
from inweights._read import FIX, parse_json

if TYPE_CHECKING:
    from torch import Tensor

HEADER_LIMIT = 8 << 20
"""Bytes of a header: a patch of a hundred blocks takes some 100 KiB. (The format itself allows 100 MB.)"""
TENSORS_LIMIT = 64 << 30
"""Bytes of a file of tensors: above every adapter, patch and checkpoint of the lab, and below a sparse file's size."""
DIMENSIONS = 64
"""Of a tensor, as in torch."""

_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A tensor as the header describes it."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """The header of a safetensors file: its metadata, and its tensors by name."""

    metadata: dict[str, str]
    tensors: dict[str, Stored]


def read_safetensors_header(path: Path, what: str, *, limit: int = TENSORS_LIMIT, fix: str = FIX) -> Header:
    """The header of a file, which fits the size of the file; no tensor is read."""
    named = f"{what} {str(path)!r}"

    def refused(reason: str) -> InputError:
        return InputError(f"{named} cannot be read, {reason}: {fix}.")

    if not path.is_file():
        raise refused("it is not a file" if path.exists() else "there is no such file")
    try:
        size = path.stat().st_size
        if size > limit:
            raise refused(f"it has {size} bytes, above {limit}, the limit for such a file")
        with path.open("rb") as file:
            first = file.read(8)
            length = int.from_bytes(first, "little")
            if len(first) < 8 or length > size - 8:
                raise refused("it is not a whole safetensors file (its header is cut off)")
            if length > HEADER_LIMIT:
                raise refused(f"its header has {length} bytes, above {HEADER_LIMIT}")
            text = file.read(length)
    except OSError as error:
        raise refused(f"the system refuses it ({error.strerror or error})") from None
    values = parse_json(text, f"The header of {named}", fix=fix)
    metadata = values.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise refused("its metadata are not texts by name")
    reason = _misfit(values, size - 8 - length)
    if reason:
        raise refused(reason)
    return Header(metadata, {name: Stored(v["dtype"], tuple(v["shape"])) for name, v in values.items()})


def read_safetensors(
    path: Path, what: str, *, limit: int = TENSORS_LIMIT, fix: str = FIX
) -> tuple[Header, dict[str, Tensor]]:
    """The header of a file and all its tensors, on the CPU."""
    from safetensors import SafetensorError, safe_open

    header = read_safetensors_header(path, what, limit=limit, fix=fix)
    try:
        with safe_open(path, framework="pt") as file:
            return header, {name: file.get_tensor(name) for name in header.tensors}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{what} {str(path)!r} cannot be read, {shown(str(error))}: {fix}.") from None


def _misfit(tensors: dict[str, Any], size: int) -> str:
    """Why these are not the tensors of a file with `size` bytes of them, one after the other; empty if they are."""
    places = []
    for name, about in tensors.items():
        if not isinstance(about, dict) or about.keys() != {"dtype", "shape", "data_offsets"}:
            return f"its header has {shown(name)} without dtype, shape and place"
        dtype, shape, place = about["dtype"], about["shape"], about["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _BYTES:
            return f"the dtype of its tensor {shown(name)} is {shown(dtype)}, which is not known"
        if not _sizes(shape) or not _sizes(place) or len(place) != 2:
            return f"the shape or the place of its tensor {shown(name)} is not a list of sizes"
        if math.prod(shape) * _BYTES[dtype] != place[1] - place[0]:
            return f"its tensor {shown(name)} is {dtype} of shape {shown(shape)}, but has {place[1] - place[0]} bytes"
        places.append((place[0], place[1]))
    end = 0
    for begin, stop in sorted(places):
        if begin != end:
            return "its tensors do not lie one after the other"
        end = stop
    return "" if end == size else f"its tensors should have {end} bytes, but {size} are there"


def _sizes(value: Any) -> bool:
    """Whether these are dimensions or offsets of a tensor, as torch could hold them: their product stays small."""
    return (
        isinstance(value, list) and len(value) <= DIMENSIONS and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )
