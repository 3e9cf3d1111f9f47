"""Failed work has a result too, which names the final folder of its files and not the temporary one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from inweights import InputError
from inweights.engines import Beat, choose, no_beat
from inweights.engines._ray import away
from inweights.engines._work import attempt


@dataclass(frozen=True)
class Wrong:
    """Writes a file and raises an error."""

    folder: Path
    error: type[Exception]
    key: str = "wrong"

    def do(self, folder: Path, beat: Beat) -> str:
        beat()
        (folder / "left").write_text("behind")
        raise self.error(f"in {folder}")

    def failed(self, why: str) -> str:
        return f"failed: {why}"


@pytest.mark.parametrize(("error", "said"), [(InputError, "in"), (OSError, "OSError: in"), (EOFError, "EOFError: in")])
def test_what_goes_wrong_is_the_answer(error: type[Exception], said: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    work = Wrong(home, error)
    assert attempt(work, tmp_path, no_beat) == f"failed: {said} {home}"
    assert away(work) == (f"failed: {said} {home}", {"left": b"behind"})
    assert not home.exists()


def test_an_interrupt_is_no_answer(tmp_path: Path) -> None:
    """A beat ends the process by an exception that is not caught."""

    def nobody_is_left() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        attempt(Wrong(tmp_path, InputError), tmp_path, nobody_is_left)


def test_engines_are_chosen_by_name() -> None:
    assert choose("local", None) is not choose("ray", "auto")
    with pytest.raises(InputError, match="There is no engine 'rai'; did you mean ray"):
        choose("rai", None)
    with pytest.raises(InputError, match="only --engine ray connects to one"):
        choose("local", "auto")
