"""`--device` and memory on the command line: the choice is printed, and a device that is missing or too small is an
error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from inweights.cli import app
from inweights.models import _estimate
from inweights.models._tiny import tiny

ASK = ("--context", "one two three", "--query", "four")
HERE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model with a tokenizer of a few words."""
    where = tmp_path_factory.mktemp("model")
    tiny("llama").float().save_pretrained(where)
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<unk>", "one", "two", "three", "four"])}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(where)
    return str(where)


def test_the_choice_of_auto_is_printed(folder: str) -> None:
    done = CliRunner().invoke(app, ["verify", "--model", folder, *ASK])
    assert done.exit_code == 0
    assert done.stderr.startswith(f"Device: {HERE}")
    assert done.stderr.rstrip().endswith("chosen by --device auto.")
    named = CliRunner().invoke(app, ["verify", "--model", folder, "--device", "cpu", *ASK])
    assert (named.exit_code, named.stderr) == (0, "")


@pytest.mark.parametrize("command", ["verify", "patch", "generate", "trace", "anatomy"])
def test_json_names_the_device_and_nothing_else_is_printed(folder: str, command: str, tmp_path: Path) -> None:
    more = [] if command == "anatomy" else list(ASK)
    more += ["--out", str(tmp_path / "patch")] if command == "patch" else []
    done = CliRunner().invoke(app, [command, "--model", folder, *more, "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["device"].startswith(HERE)
    if command in ("verify", "patch"):
        assert result["memory_estimate"] > 0
        assert result["memory_peak"] > 0


@pytest.mark.parametrize("command", ["verify", "trace", "generate"])
def test_what_does_not_fit_is_refused_before_the_work(
    folder: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [command, "--model", folder, "--device", "cpu", *ASK]
    weights = 1 << 20  # room for these weights, and for nothing after them
    monkeypatch.setattr(_estimate, "available_memory", lambda _: weights)
    assert CliRunner().invoke(app, asked).exit_code == 0
    calls = iter([weights])  # the first question is that of loading
    monkeypatch.setattr(_estimate, "available_memory", lambda _: next(calls, 0))
    refused = CliRunner().invoke(app, asked)
    reported = str(refused.exception)
    assert reported.startswith("This needs about 0.0 GiB of memory more (")
    assert "try --dtype bfloat16, a shorter --context" in reported


@pytest.mark.parametrize("command", [("verify", *ASK), ("anatomy",), ("trace", *ASK), ("lab", "eval", "linear-5")])
def test_a_device_that_is_not_here_is_one_sentence(command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*command, "--device", "cuda:999"])
    assert str(done.exception).startswith("`device` is 'cuda:999', but torch finds only cpu")


def test_small_models_are_not_spread() -> None:
    done = CliRunner().invoke(app, ["lab", "eval", "linear-5", "--device", "spread"])
    assert "--device is 'spread', but these models are small" in str(done.exception)
