"""Trainings that are asked to stop, and two at once in one folder."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from inweights import InputError
from inweights._files import LOCK, locked
from inweights.lab.sweep import cells, sweep
from inweights.lab.training import Recipe, StoppedError, changed, train
from inweights.lab.training import _checkpoint as checkpoint
from inweights.lab.training import _metrics as metrics

HOLD = """
import sys, time
from pathlib import Path
from inweights._files import locked
with locked(Path(sys.argv[1])):
    print("here", flush=True)
    time.sleep(60)
"""


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {
        f"{file}.{name}": tensor
        for file in (checkpoint.MODEL, checkpoint.CHECKPOINT)
        for name, tensor in checkpoint.read_tensors(folder / file)[0].items()
    }


@pytest.mark.parametrize(("optimiser", "at"), [("adam", 3), ("adam", 17), ("muon", 10), ("muon", 17)])
def test_stopped_and_gone_on_with_gives_the_same_bits(small: Recipe, tmp_path: Path, optimiser: str, at: int) -> None:
    recipe = changed(small, ["average=5", f"optimiser={optimiser}"])
    train(recipe, tmp_path / "whole", every=5)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == at

    with pytest.raises(StoppedError, match=f"Stopped after step {at} of 40; all of it is saved in '.*/cut'"):
        train(recipe, tmp_path / "cut", every=5, stop=stop)
    assert int(checkpoint.read_tensors(tmp_path / "cut" / checkpoint.CHECKPOINT)[0]["step"]) == at
    assert not (tmp_path / "cut" / checkpoint.MODEL).exists()
    train(recipe, tmp_path / "cut", every=5)
    one, two = weights(tmp_path / "cut"), weights(tmp_path / "whole")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    # Also the reports between which it was stopped are means of the same steps.
    mine, its = (metrics.read(tmp_path / name / checkpoint.METRICS) for name in ("cut", "whole"))
    assert [(line["step"], line["loss"]) for line in mine] == [(line["step"], line["loss"]) for line in its]


def test_a_second_process_is_refused_and_a_dead_one_is_forgotten(small: Recipe, tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"here\n"
    output = rf"^Another process \(process {holder.pid}\) is at work in '.*': wait for it, or name another folder\.$"
    with pytest.raises(InputError, match=output):
        train(small, tmp_path)
    with pytest.raises(InputError, match=output):
        sweep(cells(small, ["seed=0"]), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [LOCK]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert (tmp_path / LOCK).is_file()  # it could not remove it, and that keeps nobody out
    assert train(small, tmp_path).loss > 0
    assert not (tmp_path / LOCK).exists()


def test_the_lock_goes_with_its_owner_and_who_is_patient_waits(tmp_path: Path) -> None:
    inside: list[str] = []
    looks: list[int] = []

    def second() -> None:
        with locked(tmp_path, patience=30, waiting=lambda: looks.append(len(inside))):
            inside.append("second")

    with locked(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.3)
        with pytest.raises(InputError, match="Another process"), locked(tmp_path):
            inside.append("never")
        inside.append("first")
    other.join()
    assert inside == ["first", "second"]
    assert looks[0] == 0  # told so while it waits
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    assert not any(tmp_path.iterdir())


def test_a_lock_on_a_file_that_its_owner_removed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.flock

    def too_late(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        (tmp_path / LOCK).unlink()  # after it was opened, and before it is locked, its owner leaves,
        newcomer.enter_context(locked(tmp_path))  # and another one comes
        real(handle, how)

    with ExitStack() as newcomer:
        monkeypatch.setattr(fcntl, "flock", too_late)
        with pytest.raises(InputError, match="Another process"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass
