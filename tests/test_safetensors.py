"""The reader of safetensors files: a header that does not fit its file is refused before anything is allocated."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from inweights import InputError
from inweights._safetensors import HEADER_LIMIT, Header, Stored, read_safetensors, read_safetensors_header

SOUND = save({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.int64)}, {"about": "x"})


def packed(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def one(dtype: Any = "F32", shape: Any = (1,), place: Any = (0, 4), **more: Any) -> bytes:
    return packed({"a": {"dtype": dtype, "shape": shape, "data_offsets": place, **more}}, b"\0" * 4)


MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "its header is cut off"),
    "seven bytes": (b"\0" * 7, "its header is cut off"),
    "a petabyte of header": (packed({}, length=10**15), "its header is cut off"),
    "a header too large": (packed(b" " * (HEADER_LIMIT + 1)), f"above {HEADER_LIMIT}"),
    "petabytes": (one(shape=[10**15], place=[0, 4 * 10**15]), "should have 4000000000000000 bytes, but 4 are there"),
    "cut off": (SOUND[:-1], "its tensors should have 40 bytes, but 39 are there"),
    "too long": (SOUND + b"\0", "its tensors should have 40 bytes, but 41 are there"),
    "deep": (packed(b"[" * 10**5), "nested more than 64 levels deep"),
    "a list": (packed([]), "a list instead of a JSON object"),
    "no place": (packed({"a": {"dtype": "F32", "shape": [1]}}, b"\0" * 4), "without dtype, shape and place"),
    "a tensor that is text": (packed({"a": "b"}), "without dtype, shape and place"),
    "more than a place": (one(code="x"), "without dtype, shape and place"),
    "an unknown dtype": (one("Q4"), "is 'Q4', which is not known"),
    "a dtype that is a list": (one([]), r"is \[\], which is not known"),
    "a negative shape": (one(shape=[-1]), "is not a list of sizes"),
    "a shape of floats": (one(shape=[1.0]), "is not a list of sizes"),
    "a shape of truth": (one(shape=[True]), "is not a list of sizes"),
    "a shape of text": (one(shape="11"), "is not a list of sizes"),
    "many dimensions": (one(shape=[2**60] * 10_000), "is not a list of sizes"),
    "a size beyond 64 bits": (one(shape=[10**300]), "is not a list of sizes"),
    "three places": (one(place=[0, 4, 8]), "is not a list of sizes"),
    "a place too small": (one(shape=[2]), "is F32 of shape .2., but has 4 bytes"),
    "a place backwards": (one(place=[4, 0]), "but has -4 bytes"),
    "a hole": (one(place=[4, 8]), "do not lie one after the other"),
    "metadata of numbers": (packed({"__metadata__": {"a": 1}}), "metadata are not texts"),
    "metadata of a list": (packed({"__metadata__": []}), "metadata are not texts"),
    "a name twice": (
        packed(b'{"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, "a": {}}'), "the key 'a' twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_malformed_is_refused_within_a_second(what: str, tmp_path: Path) -> None:
    data, reason = MALFORMED[what]
    path = tmp_path / "file"
    path.write_bytes(data)
    start = time.process_time()
    for reader in (read_safetensors_header, read_safetensors):
        with pytest.raises(InputError, match=reason) as error:
            reader(path, "WHAT", fix="mend it")
        assert f"WHAT {str(path)!r} cannot be read, " in str(error.value)
        assert str(error.value).endswith(": mend it.")
    assert time.process_time() - start < 1


def test_what_is_sound_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(SOUND)
    header, tensors = read_safetensors(path, "WHAT")
    assert header == read_safetensors_header(path, "WHAT")
    assert header == Header({"about": "x"}, {"a": Stored("F32", (2, 3)), "b": Stored("I64", (2,))})
    assert torch.equal(tensors["a"], torch.arange(6.0).view(2, 3))
    path.write_bytes(save({}))
    assert read_safetensors(path, "WHAT") == (Header({}, {}), {})


def test_a_sparse_file_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    header = json.dumps({"a": {"dtype": "U8", "shape": [2**37], "data_offsets": [0, 2**37]}}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2**37)
    with pytest.raises(InputError, match="the limit for such a file"):
        read_safetensors(path, "WHAT")
    assert read_safetensors_header(path, "WHAT", limit=2**38).tensors == {"a": Stored("U8", (2**37,))}


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "there is no such file"), (tmp_path, "it is not a file")):
        with pytest.raises(InputError, match=reason):
            read_safetensors(path, "WHAT")


@given(data=st.data())
def test_no_change_of_a_sound_file_raises_anything_else(data: st.DataObject, tmp_path_factory: Any) -> None:
    at = data.draw(st.integers(0, len(SOUND)))
    cut = data.draw(st.integers(0, 9))
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(SOUND[:at] + data.draw(st.binary(max_size=9)) + SOUND[at + cut :])
    try:
        read_safetensors(path, "WHAT")
    except InputError as error:
        assert "cannot be read, " in str(error)  # noqa: PT017
