"""`inweights lab`: list, train, measure and draw, through the command line."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from inweights.lab.training._checkpoint import read_tensors

INWEIGHTS = Path(sys.executable).with_name("inweights")
SMALL = ("--set", "steps=40", "--set", "batch=16", "--set", "model.layers=1", "--set", "model.width=16")


def run(*args: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([INWEIGHTS, "lab", *args], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def refused(*args: str | Path) -> str:
    done = run(*args, code=2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "small"
    told = json.loads(run("train", "linear-5", *SMALL, "--out", folder, "--json").stdout)
    assert set(told) == {"loss", "tasks_per_second", "seconds", "steps", "path", "parameters"}
    assert Path(told["path"]).is_file()
    assert told["steps"] == 40
    assert 0 < told["loss"] < 3
    return folder


def test_list() -> None:
    told = json.loads(run("list", "--json").stdout)
    assert {"linear", "sparse", "tree"} <= set(told["tasks"])
    assert {"decoder", "lsa", "encoder"} <= set(told["models"])
    assert {"ols", "ridge", "lasso"} <= set(told["predictors"])
    assert "orthants" in told["shifts"]
    assert {"linear-5", "linear-20", "seed-encoder"} <= {r["name"] for r in told["recipes"]}
    lsa = next(r for r in told["recipes"] if r["name"] == "lsa-1")
    assert lsa["seeds"] == [0, 1, 2, 3, 4]
    line = next(line for line in run("list").stdout.splitlines() if line.strip().startswith("lsa-1 "))
    assert line.split()[3:5] == ["5", f"{lsa['quality'][-1]:.2g}"]


def test_the_readme_counts_what_is_listed() -> None:
    told = json.loads(run("list", "--json").stdout)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    words = {"tasks": "tasks (", "shifts": "ways to", "predictors": "classical predictors", "models": "architectures"}
    for kind, word in words.items():
        assert f" {len(told[kind])} {word}" in readme, kind


def test_eval(trained: Path) -> None:
    told = json.loads(run("eval", trained, "--prompts", "64", "--json").stdout)
    assert "model" in told["curves"]
    assert len(told["curves"]) > 2
    assert all(len(curve) == 11 for curve in told["curves"].values())
    assert told["curves"]["ols"][5] < 1e-3 < told["curves"]["model"][5]
    assert "after" in run("eval", trained, "--prompts", "8").stdout


def test_eval_of_chosen_predictors_and_shifted_prompts(trained: Path) -> None:
    told = json.loads(run(
        "eval", trained, "--prompts", "16", "--against", "ridge:penalty=0.5", "--shift", "orthants", "--json"
    ).stdout)  # fmt: skip
    assert list(told["curves"]) == ["model", "ridge:penalty=0.5"]
    assert told["shift"] == "orthants"


def test_plot(trained: Path, tmp_path: Path) -> None:
    told = json.loads(run("plot", trained, "--out", tmp_path, "--prompts", "32", "--json").stdout)
    assert Path(told["figure"]).read_bytes().startswith(b"\x89PNG")
    with Path(told["table"]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"curve", "x", "y", "low", "high"} == set(rows[0])
    assert all(float(r["low"]) <= float(r["y"]) <= float(r["high"]) for r in rows)


def test_training_again_does_nothing(trained: Path) -> None:
    before = read_tensors(trained / "model.safetensors")
    assert "already" in run("train", "linear-5", *SMALL, "--out", trained).stdout
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
        (("train", "linear-5", "--device", "tpu"), "must be cpu or cuda"),
        (("train", "no.toml"), "There is no file 'no.toml'"),
        (("eval", "linear-21"), "There is no trained model 'linear-21'"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "x") if args[0] == "train" else ()
    assert said in refused(*args, *out)
    assert not (tmp_path / "x").exists()


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    said = refused("train", "linear-5", "--set", "steps=0", "--set", "rate=-1", "--set", "schedule=up")
    assert all(word in said for word in ("`steps`", "`rate`", "`schedule`"))


def test_longer_prompts_than_trained_are_refused(trained: Path) -> None:
    assert "positions for 11" in refused("eval", trained, "--points", "12")


def test_unknown_predictors_and_shifts(trained: Path) -> None:
    assert "did you mean ridge" in refused("eval", trained, "--against", "rigde")
    assert "orthants" in refused("eval", trained, "--shift", "orthant")
    assert "did you mean penalty" in refused("eval", trained, "--against", "ridge:penaltyy=1")


def test_settings_that_cannot_be_typed(trained: Path) -> None:
    assert "give it in Python" in refused("eval", trained, "--against", "dmmse:pool=3")
    assert "must be of type int" in refused("train", "linear-5", "--set", "model.layers=[1,2]")
    assert "must be finite" in refused("train", "linear-5", "--set", "task.noise=inf")
    told = json.loads(run(
        "eval", trained, "--prompts", "8", "--against", "gd++:rates=[0.5,0.5],curvatures=[0.1,0.1]", "--json"
    ).stdout)  # fmt: skip
    assert len(told["curves"]) == 2


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_model_is_not_called_trained(trained: Path, tmp_path: Path, left: int) -> None:
    shutil.copytree(trained, tmp_path / "again")
    path = tmp_path / "again" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:left])
    assert "delete it to go on." in " ".join(refused("train", "linear-5", *SMALL, "--out", path.parent).split())
    path.unlink()
    assert "already" in run("train", "linear-5", *SMALL, "--out", path.parent).stdout
    assert path.is_file()


def test_small_errors_are_shown_with_their_interval(trained: Path) -> None:
    args = ("eval", trained, "--prompts", "8", "--against", "ols", "--shift", "scaled-inputs:factor=3")
    told = json.loads(run(*args, "--json").stdout)
    lines = run(*args).stdout.splitlines()
    assert any("scaled-inputs:factor=3.0" in line for line in lines)
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["ols"])
    last = told["curves"]["ols"][-1]
    assert 0 < last < 5e-5
    assert lines[at].split()[-1] == f"{last:.3g}"
    assert lines[at + 1].split()[-1] == f"±{(told['high']['ols'][-1] - told['low']['ols'][-1]) / 2:.2g}"


def test_figures_of_two_shifts_are_two(trained: Path, tmp_path: Path) -> None:
    for factor in ("3", "5"):
        run("plot", trained, "--out", tmp_path, "--prompts", "8", "--shift", f"scaled-inputs:factor={factor}")
    assert {p.stem for p in tmp_path.glob("*.png")} == {f"small-scaled-inputs-factor={f}" for f in ("3.0", "5.0")}


def test_a_truncated_model_is_refused(trained: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((trained / "model.safetensors").read_bytes()[:-200])
    assert "damaged" in refused("eval", cut)
