"""A small package as wheel and as sdist, and a shop that counts its downloads."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from inweights._errors import InputError
from inweights._fetch import (
    Recipe,
    cache,
    cached,
    fetch,
)

CONTENT = bytes(range(256)) * 9000  # more than one piece of the copy


WHEEL = "small-1.0-py3-none-any.whl"


SDIST = "small-1.0.tar.gz"


def recipe(content: bytes = CONTENT, member: str = "small/data.bin", *, sdist: bool = False) -> Recipe:
    return Recipe("small", "1.0", member, hashlib.sha256(content).hexdigest(), len(content), "CC0-1.0", sdist)


def add(archive: tarfile.TarFile, name: str, content: bytes = b"", link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.size, info.linkname = len(content), link
    info.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
    archive.addfile(info, io.BytesIO(content))


class Shop:
    """A fake index that serves an archive made here, and counts requests."""

    def __init__(self, archive: Path) -> None:
        self.archive, self.asked = archive, 0

    def __call__(self, recipe: Recipe, folder: Path) -> None:
        self.asked += 1
        shutil.copy(self.archive, folder)


def make_wheel(tmp_path: Path) -> Shop:
    with zipfile.ZipFile(tmp_path / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small/__init__.py", "raise SystemExit('never run')")
        archive.writestr("small/data.bin", CONTENT)
        archive.writestr("../escaped.bin", CONTENT)
    return Shop(tmp_path / WHEEL)


def make_sdist(tmp_path: Path) -> Shop:
    with tarfile.open(tmp_path / SDIST, "w:gz") as archive:
        add(archive, "../escaped.bin", CONTENT)
        add(archive, "small/link.bin", link="/etc/passwd")
        add(archive, "small/data.bin", CONTENT)
    return Shop(tmp_path / SDIST)


def contents(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def refused(wanted: Recipe, download: Callable[[Recipe, Path], None]) -> str:
    """The error message of a failed download; it names the package, and no file is left."""
    with pytest.raises(InputError) as stop:
        fetch(wanted, download=download)
    assert wanted.requirement in str(stop.value)
    assert "\n" not in str(stop.value)
    assert cached(wanted) is None
    if cache().is_dir():
        assert contents(cache()) == set()
        assert not list(cache().glob(".fetch-*"))
    return str(stop.value)
