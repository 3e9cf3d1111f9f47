"""Figures are drawn from the table that is written with them, and the page loads nothing."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from inweights import InputError
from inweights._files import folder_for, write_atomic, write_csv
from inweights.report import HEADER, Curve, Figure, Section, page

FIGURE = Figure(
    "title",
    "x",
    "y",
    (Curve("a", [1, 2], [0.5, 0.25]), Curve("b", [1, 2], [3.0, 4.0], "orange", low=[2, 3], high=[4, 5])),
)


def test_the_table_is_what_is_drawn(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", HEADER, FIGURE.rows())
    with path.open() as file:
        rows = list(csv.reader(file))
    assert rows == [list(HEADER), ["a", "1", "0.5", "", ""], ["a", "2", "0.25", "", ""],
                    ["b", "1", "3.0", "2", "4"], ["b", "2", "4.0", "3", "5"]]  # fmt: skip


def test_the_picture_is_the_same_each_time() -> None:
    assert FIGURE.png() == FIGURE.png()
    assert FIGURE.png() != Figure("other", "x", "y", FIGURE.curves).png()


def test_without_matplotlib_there_is_a_sentence() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "sys.modules['matplotlib.backends.backend_agg'] = None\n"
        "from inweights.report import Figure; Figure('t', 'x', 'y').png()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Figures need matplotlib: install it with pip install 'inweights[lab]'." in done.stderr


def test_everything_from_outside_is_escaped() -> None:
    bad = "<script>alert('x')</script>"
    sections = [Section(bad, (bad,), b"png", bad, bad, (bad,), ((bad, bad),))]
    assert "<script" not in page(bad, bad, sections, bad)


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = write_atomic(tmp_path / "f", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_folder_is_checked_before_any_work(tmp_path: Path) -> None:
    assert folder_for("--out", tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--out is .*file', which cannot be written to"):
        folder_for("--out", tmp_path / "file")
