"""The command line: one JSON object with --json, exit codes, one sentence for bad input."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from talking import talker

from inweights import report
from inweights.cli import main
from inweights.lab.section4 import _experiment, finetuning

pytestmark = pytest.mark.usefixtures("loaded_once")  # the commands here only read it
INWEIGHTS = Path(sys.executable).with_name("inweights")


def run(*args: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The command in this process: a new one takes seconds to load torch."""
    words, out, err = ["inweights", *map(str, args)], io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        main()
    assert int(end.value.code or 0) == code, err.getvalue()
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def run_apart(*args: str) -> str:
    """The output of the installed program, in a separate process."""
    return subprocess.run([INWEIGHTS, *args], capture_output=True, text=True, check=True).stdout


def rejected(*args: str | Path) -> str:
    """The error message for bad input: exit code 2, nothing on standard output, no traceback."""
    done = run(*args, code=2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Path]:
    """With a tenth of the trials of fine-tuning, which are most of its time."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with patch.object(_experiment, "finetuning", partial(finetuning, trials=10)):
        done = run("demo", "--only-block", "--steps", "20", "--out", out, "--json")
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout), out


def test_the_demo_writes_a_page_with_its_figures_and_tables(demo: tuple[dict[str, object], Path]) -> None:
    result, out = demo
    assert result["report"] == str(out / "index.html")
    assert result["holds"] is True
    names = {"losses", "increments", "finetuning"}
    assert {p.name for p in out.iterdir()} == {"index.html"} | {f"{n}.{e}" for n in names for e in ("png", "csv")}
    page = (out / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "<script" not in page
    assert 'src="http' not in page
    for name in names:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f'href="{name}.csv"' in page


def test_the_demos_tables_are_what_was_measured(demo: tuple[dict[str, object], Path]) -> None:
    result, out = demo
    with (out / "losses.csv").open() as file:
        rows = list(csv.DictReader(file))
    curves = {row["curve"] for row in rows}
    assert len(curves) == 2
    last = [float(row["y"]) for row in rows if row["x"] == "20"]
    assert last == [result["prompt_loss"], result["weights_loss"]]
    with (out / "finetuning.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 51
    assert all(float(r["low"]) <= float(r["y"]) <= float(r["high"]) for r in rows)


@pytest.fixture
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine-tuning on four trials instead of a hundred, at one rate: most of the demo's time, for narrow bands."""
    monkeypatch.setattr(_experiment, "finetuning", partial(finetuning, trials=4, rates=(0.1,)))


@pytest.mark.usefixtures("few_trials")
def test_the_demo_speaks_to_people(tmp_path: Path) -> None:
    output = run("demo", "--only-block", "--steps", "5", "--out", tmp_path).stdout
    assert "loss with the weights, no prompt" in output
    assert output.rstrip().endswith(f"Report: {tmp_path / 'index.html'}")


@pytest.mark.usefixtures("few_trials")
def test_the_same_seed_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "write_section4", lambda *_: [])  # its figures take as long as the numbers

    def numbers(seed: str) -> dict[str, float]:
        result = json.loads(
            run("demo", "--only-block", "--steps", "5", "--seed", seed, "--out", tmp_path, "--json").stdout
        )
        return {k: v for k, v in result.items() if k != "seconds_training"}

    assert numbers("1") == numbers("1") != numbers("2")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("bench", "prefx"), "There is no benchmark 'prefx'; did you mean prefix"),
        (("demo", "--steps", "0"), "--steps"),
        (("demo", "--out", "/proc/nowhere"), "--out is '/proc/nowhere', which cannot be written to"),
        (("nonsense",), "nonsense"),
        (("demo", "--seed", str(2**64)), "--seed"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(args: tuple[str, ...], words: str) -> None:
    assert words in rejected(*args)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert "is a file" in rejected("demo", "--out", file)
    assert file.read_text() == "mine"


def test_python_dash_m_is_the_same_door() -> None:
    done = subprocess.run([sys.executable, "-m", "inweights", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == run_apart("--version")


# --- language models ---------------------------------------------------------------------------------

TEXTS = ("--context", "My name is Bob. I live in Rome. ", "--query", "I live in")


def test_verify_proves_and_prints_pass() -> None:
    result = json.loads(run("verify", *TEXTS, "--dtype", "float64", "--json").stdout)
    assert result["verdict"] == "PASS"
    assert result["max_abs_logit_error"] <= 1e-9
    assert result["bare_max_abs_logit_error"] > 1
    assert result["top1_match"] is True
    assert result["layers"] == 30
    assert result["dtype"] == "float64"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """`--model FOLDER` of a small model with random weights: for what is about options, and not about SmolLM2."""
    where = tmp_path_factory.mktemp("tiny")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return "--model", str(where)


def test_verify_static_with_a_kept_part_and_new_tokens(tiny: tuple[str, str]) -> None:
    args = ("--static", "--keep", "Rome", "--dtype", "float64", "--new-tokens", "3", "--json")
    result = json.loads(run("verify", *TEXTS, *args, *tiny).stdout)
    assert result["max_abs_logit_error"] <= 1e-8
    assert result["bare_max_abs_logit_error"] > 0.1
    assert result["tokens_match"] == 1.0
    assert "".join(result["tokens"]["left"]).startswith("Rome")  # every byte is a token
    assert result["rank"] == result["query_tokens"]
    assert result["verdict"] == "PASS"


def test_low_precision_is_inconclusive_and_exits_with_0(tiny: tuple[str, str]) -> None:
    result = json.loads(run("verify", *TEXTS, "--static", "--dtype", "bfloat16", "--json", *tiny).stdout)
    assert result["verdict"] == "INCONCLUSIVE"


def test_a_patch_is_written_proved_again_and_exported(tmp_path: Path) -> None:
    file = tmp_path / "p.safetensors"
    result = json.loads(run("patch", *TEXTS, "--static", "--out", file, "--json").stdout)
    assert result["layers"] == 30
    assert result["bytes"] == file.stat().st_size
    assert json.loads(run("verify", *TEXTS, "--patch", file, "--json").stdout)["verdict"] == "PASS"
    other = ("--context", "My name is Eve. I live in Oslo. ", "--query", "I live in")
    assert json.loads(run("verify", *other, "--patch", file, "--json", code=1).stdout)["verdict"] == "FAIL"
    made = json.loads(run("export", file, "--out", tmp_path / "adapter", "--json").stdout)
    assert made.pop("device") == result["device"]
    assert made == {"path": str(tmp_path / "adapter"), "format": "peft", "portable": True, "reason": "", "warnings": []}
    file.write_bytes(file.read_bytes()[:-100])
    assert "cannot be read, its tensors should have" in rejected("verify", *TEXTS, "--patch", file)


def test_generate_shows_three_texts() -> None:
    result = json.loads(run("generate", *TEXTS, "--new-tokens", "4", "--json").stdout)
    assert result["patched"] == result["prompted"] != result["bare"]


def test_generated_tokens_that_differ_exit_with_1(tiny: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is known for which they do: a generation that is wrong stands for one."""
    from inweights import models

    right = models.generate

    def wrong(prompt: models.Prompt, new_tokens: int = 20) -> models.Generated:
        result = right(prompt, new_tokens)
        return replace(result, patched=[(t + 1) % 259 for t in result.prompted])

    assert json.loads(run("generate", *TEXTS, *tiny, "--json").stdout)["verdict"] == "PASS"
    monkeypatch.setattr(models, "generate", wrong)
    results = json.loads(run("generate", *TEXTS, *tiny, "--json", code=1).stdout)
    assert (results["verdict"], results["tokens_match"]) == ("FAIL", 0.0)
    assert "FAIL: 0% of 20 generated tokens" in run("generate", *TEXTS, *tiny, code=1).stdout
    proved = json.loads(run("verify", *TEXTS, *tiny, "--new-tokens", "4", "--json", code=1).stdout)
    assert (proved["verdict"], proved["tokens_verdict"]) == ("PASS", "FAIL")


def test_a_patch_that_fails_its_proof_is_written_with_a_warning_and_exit_code_1(
    tiny: tuple[str, str], tmp_path: Path
) -> None:
    """80 query tokens in a model whose last matrices read 64 values: no one change can be exact for all of them."""
    file = tmp_path / "p.safetensors"
    query = "".join(chr(ord("!") + i) for i in range(80))
    args = ("patch", "--context", "My name is Bob. ", *tiny, "--static", "--dtype", "float64")
    result = json.loads(run(*args, "--query", query, "--out", file, "--json", code=1).stdout)
    assert (result["verdict"], result["exact"]) == ("FAIL", False)
    assert "fails its proof" in result["warnings"][-1]
    assert "which exists already" in run(*args, "--query", query, "--out", file, code=2).stderr
    file.unlink()
    assert "Warning: The patch fails its proof" in run(*args, "--query", query, "--out", file, code=1).stdout
    assert file.is_file()
    result = json.loads(run(*args, "--query", query[:4], "--out", tmp_path / "q.safetensors", "--json").stdout)
    assert (result["verdict"], result["warnings"]) == ("PASS", [])
    assert result["max_abs_logit_error"] < 1e-8 < result["bare_max_abs_logit_error"]


def test_trace_draws_a_heat_map(tmp_path: Path) -> None:
    out = tmp_path / "heat.png"
    result = json.loads(run("trace", *TEXTS, "--out", out, "--json").stdout)
    assert len(result["norms"]) == len(result["layers"]) == 30
    assert len(result["norms"][0]) == len(result["tokens"])
    assert out.read_bytes().startswith(b"\x89PNG")
    with out.with_suffix(".csv").open() as file:
        assert len(list(csv.reader(file))) == 1 + 30 * len(result["tokens"])


def test_anatomy_and_families() -> None:
    result = json.loads(run("anatomy", "--json").stdout)
    assert result["supported"] is True
    assert len(result["blocks"]) == 30
    two = json.loads(run("families", "gpt2", "mamba", "--seeds", "1", "--json").stdout)
    assert two["exact"] == 2
    assert two["total"] > 100
    assert [f["status"] for f in two["families"]] == ["exact", "exact"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("verify", "--context", "a", "--query", "b", "--model", "nonsense"), "neither 'smollm2', nor a folder"),
        (
            ("verify", "--context", "@none.txt", "--query", "b"),
            "The file of --context 'none.txt' cannot be read, there is no such file",
        ),
        (("verify", "--context", "a", "--query", ""), "--query is empty"),
        (("verify", "--context", "a b", "--query", "c", "--keep", "z"), "--keep is 'z', which occurs 0 times"),
        (("families", "lama"), "There is no family 'lama'; did you mean llama"),
        (("rows", "--data", "wien"), "did you mean wine"),
        (("export", "none", "--out", "x", "--format", "onnx"), "--format is 'onnx'"),
    ],
)
def test_bad_input_on_models_gets_one_sentence(args: tuple[str, ...], words: str) -> None:
    assert words in rejected(*args)
