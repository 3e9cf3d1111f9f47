"""What commands leave on the disk: nothing after a refusal, nothing overwritten, permissions by the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from talking import talker

from inweights._files import require_writable, write_atomic
from inweights.models import to_gguf, to_peft

Run = Callable[..., tuple[int, str, str]]
TEXTS = ("--context", "My name is Bob. ", "--query", "I am")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small model with random weights."""
    where = tmp_path_factory.mktemp("tiny")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return str(where)


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}


def test_permissions_follow_the_umask(umask: int, tmp_path: Path) -> None:
    write_atomic(tmp_path / "new" / "file", "text")
    assert modes(tmp_path) == {0o666 & ~umask}
    import inweights as iw

    model = talker()
    patch = iw.patch(iw.Prompt(model, "My name is Bob. ", "I am"), "static")
    folder = to_peft(patch, model, tmp_path / "adapter")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~umask
    to_gguf(patch, model, tmp_path / "adapter.gguf")
    assert modes(tmp_path) == {0o666 & ~umask}


@pytest.mark.parametrize("form", ["peft", "gguf", "merged"])
def test_export_never_overwrites(form: str, run: Run, tiny: str, tmp_path: Path) -> None:
    patch, out = tmp_path / "p.safetensors", tmp_path / "out"
    assert run("patch", *TEXTS, "--static", "--model", tiny, "--out", patch)[0] == 0
    args = ("export", patch, "--format", form, "--model", tiny, "--out", out)
    assert run(*args)[0] == 0
    before = {p: p.stat().st_mtime_ns for p in (out, *out.rglob("*"))}
    code, _, err = run(*args)
    assert code == 2
    assert "name a new one" in err
    assert {p: p.stat().st_mtime_ns for p in (out, *out.rglob("*"))} == before


@pytest.mark.parametrize(
    "args",
    [
        ("patch", *TEXTS, "--model", "TINY", "--keep", "no such part", "--out", "OUT/p.safetensors"),
        ("trace", *TEXTS, "--model", "TINY", "--keep", "no such part", "--out", "OUT/t.png"),
        ("fold", "--context", "a", "--calibration", "none.txt", "--out", "OUT/adapter"),
        ("combine", "none", "none", "--model", "TINY", "--out", "OUT/both"),
        ("export", "no/patch", "--out", "OUT/adapter"),
        ("lab", "plot", "no such model", "--out", "OUT"),
        ("lab", "train", "no such recipe", "--out", "OUT"),
        ("claims", "run", "no-such-claim", "--out", "OUT"),
        ("data", "fetch", "no such data", "--out", "OUT/x.csv"),
    ],
    ids=lambda args: "-".join(args[:2]),
)
def test_a_refused_run_leaves_no_folder(args: tuple[str, ...], run: Run, tiny: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    code, _, err = run(*(a.replace("OUT", str(out)).replace("TINY", tiny) for a in args))
    assert code == 2, err
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused_without_a_trace(tmp_path: Path) -> None:
    require_writable("--out", tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    from inweights import InputError

    with pytest.raises(InputError, match=r"--out is '.*/file/x', which cannot be written to"):
        require_writable("--out", tmp_path / "file" / "x")
