"""`inweights lab`: list, train, measure and draw, through the command line."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights.lab.models import LSAModel
from inweights.lab.training._checkpoint import read_tensors

Lab, Refused = Callable[..., Any], Callable[..., str]
SMALL = ("--set", "steps=40", "--set", "batch=16", "--set", "model.layers=1", "--set", "model.width=16")


@pytest.fixture(scope="module")
def trained(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "small"
    told = json.loads(lab("train", "linear-5", *SMALL, "--out", folder, "--json").stdout)
    assert set(told) == {"loss", "tasks_per_second", "seconds", "steps", "path", "parameters"}
    assert Path(told["path"]).is_file()
    assert told["steps"] == 40
    assert 0 < told["loss"] < 3
    return folder


@pytest.fixture(scope="module")
def told(lab: Lab) -> dict[str, Any]:
    return dict(json.loads(lab("list", "--json").stdout))


def test_list(told: dict[str, Any], lab: Lab) -> None:
    assert {"linear", "sparse", "tree"} <= set(told["tasks"])
    assert {"decoder", "lsa", "encoder"} <= set(told["models"])
    assert {"ols", "ridge", "lasso"} <= set(told["predictors"])
    assert "orthants" in told["shifts"]
    assert {"linear-5", "linear-20", "seed-encoder"} <= {r["name"] for r in told["recipes"]}
    lsa = next(r for r in told["recipes"] if r["name"] == "lsa-1")
    assert lsa["seeds"] == [0, 1, 2, 3, 4]
    line = next(line for line in lab("list").stdout.splitlines() if line.strip().startswith("lsa-1 "))
    assert line.split()[3:5] == ["5", f"{lsa['quality'][-1]:.2g}"]


def test_the_command_itself_ends_with_a_sentence(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("inweights"), "lab", "train", "linear-6", "--out", tmp_path / "x"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no recipe 'linear-6'; did you mean linear-5" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_readme_counts_what_is_listed(told: dict[str, Any]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    words = {"tasks": "tasks", "shifts": "shifts", "predictors": "predictors", "models": "architectures"}
    for kind, word in words.items():
        assert f" {len(told[kind])} {word}" in readme, kind


def test_eval(trained: Path, lab: Lab) -> None:
    told = json.loads(lab("eval", trained, "--prompts", "64", "--json").stdout)
    assert "model" in told["curves"]
    assert len(told["curves"]) > 2
    assert all(len(curve) == 11 for curve in told["curves"].values())
    assert told["curves"]["ols"][5] < 1e-3 < told["curves"]["model"][5]
    assert "after" in lab("eval", trained, "--prompts", "8").stdout


def test_eval_of_chosen_predictors_and_shifted_prompts(trained: Path, lab: Lab) -> None:
    told = json.loads(lab(
        "eval", trained, "--prompts", "16", "--against", "ridge:penalty=0.5", "--shift", "orthants", "--json"
    ).stdout)  # fmt: skip
    assert list(told["curves"]) == ["model", "ridge:penalty=0.5"]
    assert told["shift"] == "orthants"


def test_eval_against_another_trained_model(trained: Path, lab: Lab, refused: Refused) -> None:
    args = ("eval", "linear-5", "--prompts", "64", "--against", trained, "--against", "linear-5@0", "--against", "ols")
    found = json.loads(lab(*args, "--json").stdout)["curves"]
    assert list(found) == ["model", str(trained), "linear-5@0", "ols"]
    assert found["linear-5@0"] == found["model"]
    assert found["model"][-1] < found[str(trained)][-1]
    assert (
        found[str(trained)] == json.loads(lab("eval", trained, "--prompts", "64", "--json").stdout)["curves"]["model"]
    )
    assert "trained with dims 10, but these prompts have 5" in refused("eval", trained, "--against", "lsa-1")
    assert "positions for 11 points" in refused("eval", "depth-4", "--against", "linear-5")
    assert "did you mean lsa-5, lsa-2" in refused("eval", trained, "--against", "lsa5")
    assert "lab train lsa-1 --set seed=77" in refused("eval", trained, "--against", "lsa-1@77")


def test_a_few_absurd_prompts_move_the_mean_and_not_the_median(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("eval", "lsa-1", "--prompts", "200", "--against", "ols")
    before = json.loads(lab(*args, "--json").stdout)
    honest = LSAModel.predict_prefixes

    def absurd(*given: Any) -> torch.Tensor:
        answers = honest(*given)
        answers[:2] = 1e4
        return answers

    monkeypatch.setattr(LSAModel, "predict_prefixes", absurd)
    after = json.loads(lab(*args, "--json").stdout)
    assert after["curves"]["model"][-1] > 1e4 * before["curves"]["model"][-1]
    assert after["median"]["model"][-1] == pytest.approx(before["median"]["model"][-1], rel=0.1)
    assert after["median"]["ols"] == before["median"]["ols"]
    lines = lab(*args).stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["model"])
    assert lines[at + 2].split() == ["median", *(f"{after['median']['model'][i]:.3g}" for i in (0, 2, 3, 5, 7, 8, 10))]


def test_shifted_errors_are_divided_by_the_power_of_shifted_labels(trained: Path, lab: Lab) -> None:
    args = ("eval", trained, "--prompts", "512", "--against", "zero", "--against", "ols")
    plain = json.loads(lab(*args, "--json").stdout)
    assert plain["power"] == 5
    for shift, factor in (("scaled-inputs:factor=3", 9), ("scaled-weights:factor=0.1", 0.01), ("orthants", 1)):
        found = json.loads(lab(*args, "--shift", shift, "--json").stdout)
        assert found["power"] == pytest.approx(5 * factor, rel=0.1), shift
        zero = found["curves"]["zero"]
        assert sum(zero) / len(zero) == pytest.approx(1, abs=1e-6), shift
        assert f"shifted label without noise, {found['power']:.4g} (unshifted 5)" in found["unit"]
        assert found["error_unit"] == found["unit"]
    # Scaling inputs and labels alike leaves least squares as it was.
    scaled = json.loads(lab(*args, "--shift", "scaled-inputs:factor=3", "--json").stdout)
    ratio = plain["power"] * 9 / scaled["power"]
    assert scaled["curves"]["ols"][2] == pytest.approx(plain["curves"]["ols"][2] * ratio, rel=1e-3)
    # Noise is not power: answering 0 is then worse than 1, as it is on noisy tasks.
    noisy = json.loads(lab(*args, "--shift", "noisy-labels:noise=2", "--json").stdout)
    assert noisy["power"] == pytest.approx(5, rel=0.1)
    assert sum(noisy["curves"]["zero"]) / 11 == pytest.approx(1 + 4 / 5, rel=0.1)


def test_plot(trained: Path, tmp_path: Path, lab: Lab) -> None:
    told = json.loads(lab("plot", trained, "--out", tmp_path, "--prompts", "32", "--json").stdout)
    assert Path(told["figure"]).read_bytes().startswith(b"\x89PNG")
    with Path(told["table"]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"curve", "x", "y", "low", "high"} == set(rows[0])
    assert all(float(r["low"]) <= float(r["y"]) <= float(r["high"]) for r in rows)


def test_training_again_does_nothing(trained: Path, lab: Lab) -> None:
    before = read_tensors(trained / "model.safetensors")
    assert "already" in lab("train", "linear-5", *SMALL, "--out", trained).stdout
    after = read_tensors(trained / "model.safetensors")
    assert after[1:] == before[1:]
    assert all(torch.equal(t, after[0][name]) for name, t in before[0].items())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("train", "linear-6"), "There is no recipe 'linear-6'; did you mean linear-5"),
        (("train", "linear-5", "--set", "stpes=3"), "did you mean steps"),
        (("train", "linear-5", "--set", "steps=0", "--set", "rate=-1"), "`rate` is -1"),
        (("train", "linear-5", "--set", "task.kind=liner"), "There is no task 'liner'; did you mean linear"),
        (("train", "linear-5", "--set", "model.kind=decodre"), "There is no model 'decodre'; did you mean decoder"),
        (("train", "linear-5", "--set", "model.layer=3"), "did you mean layers"),
        (("train", "linear-5", "--set", "steps"), "write key=value"),
        (("train", "linear-5", "--device", "tpu"), "--device is 'tpu', but must be auto, cpu, cuda"),
        (("train", "no.toml"), "There is no file 'no.toml'"),
        (("eval", "linear-21"), "There is no trained model 'linear-21'"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(
    args: tuple[str, ...], said: str, tmp_path: Path, refused: Refused
) -> None:
    out = ("--out", tmp_path / "x") if args[0] == "train" else ()
    assert said in refused(*args, *out)
    assert not (tmp_path / "x").exists()


def test_all_problems_are_reported_at_once(tmp_path: Path, refused: Refused) -> None:
    said = refused("train", "linear-5", "--set", "steps=0", "--set", "rate=-1", "--set", "schedule=up")
    assert all(word in said for word in ("`steps`", "`rate`", "`schedule`"))


def test_longer_prompts_than_trained_are_refused(trained: Path, refused: Refused) -> None:
    assert "positions for 11" in refused("eval", trained, "--points", "12")


def test_unknown_predictors_and_shifts(trained: Path, refused: Refused) -> None:
    assert "did you mean ridge" in refused("eval", trained, "--against", "rigde")
    assert "orthants" in refused("eval", trained, "--shift", "orthant")
    assert "did you mean penalty" in refused("eval", trained, "--against", "ridge:penaltyy=1")


def test_settings_that_cannot_be_typed(trained: Path, lab: Lab, refused: Refused) -> None:
    assert "give it in Python" in refused("eval", trained, "--against", "dmmse:pool=3")
    assert "must be of type int" in refused("train", "linear-5", "--set", "model.layers=[1,2]")
    assert "must be finite" in refused("train", "linear-5", "--set", "task.noise=inf")
    told = json.loads(lab(
        "eval", trained, "--prompts", "8", "--against", "gd++:rates=[0.5,0.5],curvatures=[0.1,0.1]", "--json"
    ).stdout)  # fmt: skip
    assert len(told["curves"]) == 2


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_model_is_not_called_trained(
    trained: Path, tmp_path: Path, left: int, lab: Lab, refused: Refused
) -> None:
    shutil.copytree(trained, tmp_path / "again")
    path = tmp_path / "again" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:left])
    assert "delete it to go on." in " ".join(refused("train", "linear-5", *SMALL, "--out", path.parent).split())
    path.unlink()
    assert "already" in lab("train", "linear-5", *SMALL, "--out", path.parent).stdout
    assert path.is_file()


def test_small_errors_are_shown_with_their_interval(trained: Path, lab: Lab) -> None:
    args = ("eval", trained, "--prompts", "8", "--against", "ols", "--shift", "scaled-inputs:factor=3")
    told = json.loads(lab(*args, "--json").stdout)
    lines = lab(*args).stdout.splitlines()
    assert any("scaled-inputs:factor=3.0" in line for line in lines)
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["ols"])
    last = told["curves"]["ols"][-1]
    assert 0 < last < 5e-5
    assert lines[at].split()[-1] == f"{last:.3g}"
    assert lines[at + 1].split()[-1] == f"±{(told['high']['ols'][-1] - told['low']['ols'][-1]) / 2:.2g}"


def test_figures_of_two_shifts_are_two(trained: Path, tmp_path: Path, lab: Lab) -> None:
    for factor in ("3", "5"):
        lab("plot", trained, "--out", tmp_path, "--prompts", "8", "--shift", f"scaled-inputs:factor={factor}")
    assert {p.stem for p in tmp_path.glob("*.png")} == {f"small-scaled-inputs-factor={f}" for f in ("3.0", "5.0")}


def test_a_truncated_model_is_refused(trained: Path, tmp_path: Path, refused: Refused) -> None:
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((trained / "model.safetensors").read_bytes()[:-200])
    assert "cannot be read, its tensors should have" in refused("eval", cut)


def test_ctrl_c_saves_and_prints_how_to_resume(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "long one"

    def press() -> None:
        while not (out / "metrics.jsonl").is_file():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    before, presser = signal.getsignal(signal.SIGINT), threading.Thread(target=press)
    presser.start()
    small = (*SMALL[2:], "--set", "steps=100000", "--set", "batch=2", "--out", out)
    said = lab("train", "linear-5", *small, "--json", code=130)
    presser.join()
    assert said.stdout == ""
    step = int(read_tensors(out / "checkpoint.safetensors")[0]["step"])
    assert f"Stopped after step {step} of 100000" in said.stderr
    assert said.stderr.rstrip().endswith(f"--out '{out}' --json")  # the command, as a shell reads it
    assert "To resume: inweights lab train linear-5 --set" in said.stderr
    assert signal.getsignal(signal.SIGINT) is before


def test_more_memory_than_there_is_ends_with_a_sentence(refused: Refused, tmp_path: Path) -> None:
    said = refused("train", "linear-5", "--set", "batch=100000000000", "--out", tmp_path / "m")
    sentence = "There is not enough memory for this: ask for less, e.g. a smaller batch, or fewer prompts."
    assert said.splitlines()[-1] == sentence


def test_several_seeds_are_trained_at_once(lab: Lab, tmp_path: Path) -> None:
    run = ["train", "lsa-1", "--seeds", "2", "--out", tmp_path / "out", "--set", "steps=3", "--set", "batch=4"]
    found = json.loads(lab(*run, "--set", "seed=2", "--json").stdout)
    assert [each["seed"] for each in found["seeds"]] == [2, 3]
    assert all(Path(each["path"]).is_file() for each in found["seeds"])
    assert found["loss"] == found["seeds"][0]["loss"] != found["seeds"][1]["loss"]
    assert lab(*run, "--set", "seed=2").stdout.count("Trained already") == 2
