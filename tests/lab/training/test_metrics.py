"""The lines of a training: lines that are not numbers are left out, and files that are not text are an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from inweights import InputError
from inweights.lab.training._metrics import Metrics, read

SOUND = '{"step": 1, "loss": 0.5}\n'


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"step": "1", "loss": 1}', '{"loss": 1}', "[" * 10**5, '{"step": 1, "loss": NaN}', "3"]
)
def test_only_lines_of_numbers_are_read(line: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(SOUND + line + "\n" + SOUND.replace("1", "2"))
    assert [values["step"] for values in read(path)] == [1, 2]
    Metrics(path, 1).close()
    assert path.read_text() == SOUND


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert read(path) == []
    path.write_bytes(b"\xff")
    with pytest.raises(
        InputError, match=r"metrics.jsonl' cannot be read, it is not UTF-8 text .*: delete it to go on\.$"
    ):
        read(path)
