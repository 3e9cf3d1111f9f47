"""Transformers models that the user has: folded, applied, saved and read as they are, without `iw.load`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from talking import talker
from transformers import AutoModelForCausalLM, AutoTokenizer

import inweights as iw

CONTEXT = "Speak like a pirate."
QUERIES = ["Who are you?", "What is a cat?", "Why?"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("base")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def net(home: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(home)


@pytest.fixture(scope="module")
def tokenizer(home: Path) -> Any:
    return AutoTokenizer.from_pretrained(home)


@pytest.fixture(scope="module")
def fold(net: Any, tokenizer: Any) -> iw.Fold:
    return iw.fold(net, CONTEXT, calibration=QUERIES, method="vector", tokenizer=tokenizer)


def logits(net: Any) -> torch.Tensor:
    with torch.no_grad():
        return net(input_ids=torch.arange(5, 20).unsqueeze(0)).logits


def test_a_fold_is_applied_to_the_users_own_model(net: Any, fold: iw.Fold) -> None:
    before = logits(net)
    with fold.applied(net) as same:
        assert same is net
        inside = logits(net)
    assert torch.equal(logits(net), before)
    assert (inside - before).abs().max() > 1e-2
    with fold.applied(fold.model):
        assert torch.equal(logits(net), inside)
    assert fold.norms(net) == fold.norms(fold.model)


def test_a_copy_of_the_model_that_has_no_tokenizer_is_recognised(home: Path, net: Any, fold: iw.Fold) -> None:
    copy = AutoModelForCausalLM.from_pretrained(home)
    with fold.applied(copy), fold.applied(net):
        assert torch.equal(logits(copy), logits(net))
    copy.model.layers[0].mlp.up_proj.weight.data.add_(1e-3)
    with pytest.raises(iw.InputError, match="made for other weights"), fold.applied(copy):
        pass


def test_the_adapter_names_its_base_and_is_read_for_a_plain_model(
    home: Path, net: Any, tokenizer: Any, fold: iw.Fold, tmp_path: Path
) -> None:
    where = fold.save_pretrained(tmp_path / "adapter", net)
    assert json.loads((where / "adapter_config.json").read_text())["base_model_name_or_path"] == str(home)
    with fold.applied(net):
        wanted = logits(net)
    torch.testing.assert_close(logits(PeftModel.from_pretrained(talker().model, where)), wanted, rtol=0, atol=1e-4)
    again = iw.load_fold(where, net, tokenizer=tokenizer)
    with again.applied(net):
        torch.testing.assert_close(logits(net), wanted, rtol=0, atol=1e-5)
    assert iw.evaluate(again, CONTEXT, QUERIES, new=2).sets[0].queries == 3


def test_a_model_that_was_never_on_disk_has_no_base_path(tmp_path: Path) -> None:
    made = talker()
    fold = iw.fold(made.model, CONTEXT, calibration=QUERIES, method="vector", tokenizer=made.tokenizer)
    where = fold.save_pretrained(tmp_path / "adapter")
    assert json.loads((where / "adapter_config.json").read_text())["base_model_name_or_path"] is None


def test_a_fold_returns_its_report_if_asked(net: Any, tokenizer: Any) -> None:
    fold, report = iw.fold(net, CONTEXT, calibration=QUERIES, method="vector", tokenizer=tokenizer, report=True)
    assert isinstance(fold, iw.Fold)
    assert report.verdict in ("GOOD", "PARTIAL", "FAILED")
    assert report.sets[0].kl_bare > 0
    assert "controls" in report.sets[0].as_json()


@pytest.mark.parametrize("use", [iw.fold, lambda net, text: iw.Prompt(net, text, "Hi")], ids=["fold", "Prompt"])
def test_a_missing_tokenizer_is_asked_for(use: Any, net: Any) -> None:
    with pytest.raises(iw.InputError, match=r"no tokenizer: pass `tokenizer=AutoTokenizer.from_pretrained\(...\)`"):
        use(net, CONTEXT)


def test_wrong_arguments_are_named(net: Any, tokenizer: Any) -> None:
    with pytest.raises(iw.InputError, match="`context` is None, but must be text"):
        iw.fold(net, None, tokenizer=tokenizer)  # type: ignore[arg-type]
    with pytest.raises(iw.InputError, match=r"`model` is a str: load it with `iw.load`"):
        iw.fold("smollm2", CONTEXT)  # type: ignore[call-overload]
    with pytest.raises(iw.InputError, match=r"`spec` is a LlamaForCausalLM.*already loaded"):
        iw.load(net)
    with pytest.raises(iw.InputError, match="`spec` is a Model"):
        iw.load(talker())  # type: ignore[arg-type]
