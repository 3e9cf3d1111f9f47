"""Trainings that are stopped in different ways, and resumed."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from inweights import InputError
from inweights.lab.training import Progress, Recipe, Run, changed, load_trained, train
from inweights.lab.training import _checkpoint as checkpoint
from inweights.lab.training import _metrics as metrics

ALL = ["curriculum.dims=2", "curriculum.points=3", "average=20", "steps=400"]

CHILD = """
import sys, torch
from pathlib import Path
from inweights.lab.training import parse, train
import json
torch.set_num_threads(1)
train(parse(json.loads(sys.argv[1]), "test"), Path(sys.argv[2]), every=2, save_seconds=0.05)
"""


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return (
        checkpoint.read_tensors(folder / checkpoint.CHECKPOINT)[0]
        | load_trained(folder / "model.safetensors")[0].state_dict()
    )


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)


class StopError(Exception):
    pass


def stop_at(step: int) -> Callable[[Progress], None]:
    def after(now: Progress) -> None:
        if now.step == step:
            raise StopError

    return after


def test_killed_and_resumed_gives_the_same_bits(small: Recipe, tmp_path: Path) -> None:
    recipe = changed(small, [*ALL, "optimiser=muon"])  # which has Adam beside it; alone, Adam is in test_stop.py
    whole = train(recipe, tmp_path / "whole", every=2)
    cut = tmp_path / "cut"
    child = subprocess.Popen([sys.executable, "-c", CHILD, recipe.model_dump_json(), str(cut)])
    while len(metrics.read(cut / "metrics.jsonl")) < 50:
        assert child.poll() is None
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    stood = int(checkpoint.read_tensors(cut / checkpoint.CHECKPOINT)[0]["step"])
    assert 0 < stood < 400
    seen: list[int] = []
    done = train(recipe, cut, every=2, after=lambda now: seen.append(now.step))
    assert seen[0] == stood + 2
    assert done.loss == whole.loss
    assert same(weights(cut), weights(tmp_path / "whole"))
    # No line of the metrics is there twice, and all but the speed are as they would have been.
    one, two = (metrics.read(tmp_path / name / "metrics.jsonl") for name in ("cut", "whole"))
    assert [line["step"] for line in one] == list(range(2, 401, 2))
    assert [(line["loss"], line["rate"]) for line in one] == [(line["loss"], line["rate"]) for line in two]
    # The control: another seed gives other weights.
    train(changed(recipe, ["seed=1"]), tmp_path / "other")
    assert not same(weights(cut), weights(tmp_path / "other"))


def test_a_finished_training_returns_the_same_result(small: Recipe, tmp_path: Path) -> None:
    first = train(small, tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    again = train(small, tmp_path)
    assert again.loss == first.loss
    assert load_trained(again.path)[2]["loss"] == first.loss
    assert again.seconds >= first.seconds
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_metrics_start_again_where_nothing_was_saved(small: Recipe, tmp_path: Path) -> None:
    with pytest.raises(StopError):
        train(small, tmp_path, every=1, after=stop_at(20))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 21, "lo')  # a crash in the middle of a line
    train(small, tmp_path, every=1)
    assert [line["step"] for line in metrics.read(tmp_path / "metrics.jsonl")] == list(range(1, 41))


def test_a_diverging_loss_leaves_the_earlier_checkpoint(small: Recipe, tmp_path: Path) -> None:
    wild = changed(small, ["rate=1e6", "schedule=constant", "warmup=0.9", "steps=1000"])
    with pytest.raises(
        InputError, match=r"became (nan|inf|infinite|\d\S*e\+\d+) before step \d+: train with a `rate` below 1e\+06"
    ):
        train(wild, tmp_path, every=1, save_seconds=0.0)
    tensors = checkpoint.read_tensors(tmp_path / checkpoint.CHECKPOINT)[0]
    stopped = metrics.read(tmp_path / "metrics.jsonl")[-1]
    assert 1 <= int(tensors["step"]) <= stopped["step"]
    assert torch.isfinite(torch.tensor(stopped["loss"]))
    assert all(bool(t.isfinite().all()) for t in tensors.values()), "what was saved is of no use"
    assert not (tmp_path / "model.safetensors").exists()


def test_a_loss_that_is_a_number_can_have_diverged_too(small: Recipe, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The loss became \d\.\d+e\+\d+ before step \d+"):
        train(changed(small, ["rate=30.0", "optimiser=adam", "schedule=constant", "steps=200"]), tmp_path, every=1)
    high = [line["loss"] > 1e6 for line in metrics.read(tmp_path / "metrics.jsonl")]
    assert high[-1]  # the first of two in a row
    assert not any(one and other for one, other in pairwise(high))


@pytest.mark.parametrize(
    ("losses", "at"),
    [((0.5, 1e9, 0.4, 0.3), 0), ((0.5, 1e9, 1e9, 0.3), 3), ((0.5, math.inf, 0.4, 0.3), 2), ((0.5, 0.4, 0.3, 1e9), 4)],
)
def test_one_batch_of_a_huge_loss_is_no_divergence(
    losses: tuple[float, ...], at: int, small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two reports of one in a row are, as is one that is infinite or the last."""
    reports = iter(losses)

    def mean_loss(run: Run, steps: int) -> float:
        run.losses = [next(reports)]
        return run.losses[0]

    monkeypatch.setattr(Run, "mean_loss", mean_loss)
    short = changed(small, ["steps=4"])
    if not at:
        assert train(short, tmp_path, every=1).loss == losses[-1]
        return
    with pytest.raises(InputError, match=rf"The loss became \S+ before step {at}:"):
        train(short, tmp_path, every=1)


def test_a_finished_model_without_its_checkpoint_is_not_overwritten(small: Recipe, tmp_path: Path) -> None:
    first = train(small, tmp_path).model.state_dict()
    before = (tmp_path / checkpoint.MODEL).read_bytes()
    (tmp_path / checkpoint.CHECKPOINT).unlink()
    with pytest.raises(InputError, match=r"holds a training with another recipe \(seed\)"):
        train(changed(small, ["seed=5"]), tmp_path)
    assert (tmp_path / checkpoint.MODEL).read_bytes() == before
    again = train(small, tmp_path).model.state_dict()  # what is asked for once more is made once more, bit for bit
    assert all(torch.equal(again[name], t) for name, t in first.items())
    other = train(changed(small, ["seed=5"]), tmp_path / "other").model.state_dict()
    assert not all(torch.equal(other[name], t) for name, t in first.items())


@pytest.mark.parametrize("left", [0, 5, 1000])
def test_a_truncated_checkpoint_is_refused(small: Recipe, tmp_path: Path, left: int) -> None:
    train(small, tmp_path)
    path = tmp_path / checkpoint.CHECKPOINT
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InputError, match=r"checkpoint.safetensors' cannot be read, .*: delete it to begin anew\.$"):
        train(small, tmp_path)


def test_a_checkpoint_of_something_else_is_refused(small: Recipe, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"step": torch.tensor(3)}, tmp_path / checkpoint.CHECKPOINT)
    with pytest.raises(InputError, match="holds no recipe"):
        train(small, tmp_path)
    checkpoint.write(tmp_path / checkpoint.CHECKPOINT, {"step": torch.tensor(3)}, small)
    with pytest.raises(InputError, match="does not fit its own recipe"):
        train(small, tmp_path)


def test_a_checkpoint_of_another_recipe_is_refused(small: Recipe, tmp_path: Path) -> None:
    train(small, tmp_path)
    with pytest.raises(InputError, match=r"a training with another recipe \(rate, seed\): name another folder"):
        train(changed(small, ["seed=1", "rate=0.5"]), tmp_path)


def test_no_space_left_keeps_the_old_checkpoint(small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(small, tmp_path / "whole", every=1)
    folder = tmp_path / "cut"

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def after(now: Progress) -> None:
        if now.step == 20:
            monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"):
        train(small, folder, every=1, save_seconds=0.0, after=after)
    monkeypatch.undo()
    assert int(checkpoint.read_tensors(folder / checkpoint.CHECKPOINT)[0]["step"]) == 20
    assert {p.name for p in folder.iterdir() if p.is_file()} == {"checkpoint.safetensors", "metrics.jsonl"}
    assert train(small, folder, every=1).loss == whole.loss
    assert same(weights(folder), weights(tmp_path / "whole"))


def test_a_disk_that_is_really_full(small: Recipe, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        ballast = disk / "ballast"

        def after(now: Progress) -> None:
            if now.step == 20:
                with suppress(OSError), ballast.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(1024))

        with pytest.raises(OSError, match="No space left"):
            train(small, disk / "run", every=1, save_seconds=0.0, after=after)
        assert 0 < int(checkpoint.read_tensors(disk / "run" / checkpoint.CHECKPOINT)[0]["step"]) <= 20
        ballast.unlink()
        train(small, disk / "run", every=1)
        train(small, tmp_path / "whole", every=1)
        assert same(weights(disk / "run"), weights(tmp_path / "whole"))
        lines = (disk / "run" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(1, 41))
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
