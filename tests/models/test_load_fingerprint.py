"""The fingerprint of a model: all values, the configuration and the tokenizer; and those that older files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from inweights import InputError
from inweights.folding import Card, Fold
from inweights.folding._load import load_fold
from inweights.models import Model, Patch, Prompt, load, patch
from inweights.models._fingerprint import read_weights, sampled
from inweights.models._model import as_model
from inweights.models._tiny import tiny
from inweights.theory import Update

DOWN = "model.layers.1.mlp.down_proj.weight"


def tokenizer(first: str = "a", **options: Any) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({first: 0, "b": 1}, unk_token="b"))
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="b", **options)


def test_one_value_among_all_changes_it() -> None:
    net = tiny("llama").float()
    before = as_model(net).fingerprint
    large = torch.nn.Parameter(torch.zeros(10_001))
    net.register_parameter("large", large)
    with_large = as_model(net).fingerprint
    with torch.no_grad():
        large[9_999] = 1e-30
    assert len({before, with_large, as_model(net).fingerprint}) == 3


def test_buffers_of_the_checkpoint_count_and_computed_ones_do_not() -> None:
    net = tiny("llama").float()
    net.register_buffer("kept", torch.zeros(3))
    net.register_buffer("computed", torch.zeros(3), persistent=False)
    before = as_model(net).fingerprint
    net.get_buffer("computed")[0] = 1
    assert as_model(net).fingerprint == before
    net.get_buffer("kept")[0] = 1
    assert as_model(net).fingerprint != before


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_it_is_the_same_in_float32_and_float64(tmp_path: Path, stored: torch.dtype) -> None:
    tiny("llama").to(stored).save_pretrained(tmp_path)
    assert load(str(tmp_path)).fingerprint == load(str(tmp_path), dtype="float64").fingerprint
    # Stored in bfloat16, nothing is rounded when it is loaded so; stored in float32, it is.
    low = load(str(tmp_path), dtype="bfloat16").fingerprint
    assert (low == load(str(tmp_path)).fingerprint) == (stored == torch.bfloat16)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3_text", "mixtral"])
def test_it_survives_saving(tmp_path: Path, name: str) -> None:
    net = tiny(name).float()
    net.save_pretrained(tmp_path)
    assert load(str(tmp_path)).fingerprint == as_model(net).fingerprint


def test_settings_count_and_bookkeeping_does_not() -> None:
    net: Any = tiny("llama").float()
    before = as_model(net).fingerprint
    net.config._name_or_path, net.config.use_cache, net.config.architectures = "elsewhere", False, ["Other"]
    assert as_model(net).fingerprint == before
    net.config.rms_norm_eps = 1e-3
    assert as_model(net).fingerprint != before


def test_the_tokenizer_counts() -> None:
    net = tiny("llama").float()
    kinds = [tokenizer(), tokenizer("x"), tokenizer(eos_token="a"), tokenizer(chat_template="{{ messages }}"), None]
    assert len({as_model(net, kind).fingerprint for kind in kinds}) == len(kinds)
    used = tokenizer()
    used(["a b", "a"], truncation=True, max_length=1)
    assert as_model(net, used).fingerprint == as_model(net, tokenizer()).fingerprint


def test_a_model_without_its_tokenizer_still_fits() -> None:
    net = tiny("llama").float()
    bare, full, other = as_model(net), as_model(net, tokenizer()), as_model(net, tokenizer("x"))
    assert full.is_base(bare.fingerprint)
    assert bare.is_base(full.fingerprint)
    assert not other.is_base(full.fingerprint)
    assert not as_model(tiny("llama", 1).float()).is_base(bare.fingerprint)


def test_it_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny("llama").float().save_pretrained(tmp_path)
    of = load(str(tmp_path))
    assert of.weights == read_weights(of.model).digest
    monkeypatch.setattr("inweights.models._model.read_weights", None)
    assert of.fingerprint == of.fingerprint


def test_weights_that_accelerate_keeps_elsewhere_are_read() -> None:
    from accelerate import cpu_offload

    net = tiny("llama").float()
    whole = as_model(net).fingerprint
    away = cpu_offload(net, execution_device=torch.device("cpu"))
    assert away.get_parameter(DOWN).device.type == "meta"
    assert as_model(away).fingerprint == whole


def test_weights_that_are_nowhere_are_refused() -> None:
    with pytest.raises(InputError, match="has no values: load the model before it is used"):
        _ = as_model(tiny("llama").to("meta")).fingerprint


# --- files of the first version ---------------------------------------------------------------------------


def test_the_sampled_fingerprint_is_that_of_the_first_version() -> None:
    """A number that the first version gave; adapters with it are in use."""
    net = torch.nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.arange(6.0).reshape(2, 3))
        net.bias.fill_(0.5)
    assert sampled(net) == SAMPLED


SAMPLED = "25fdec84c0af00e4f9af893d1b780f61c0f8b302d9d2fc809bdd2aac924fdd06"


def prompt(of: Model) -> Prompt:
    ids = (torch.arange(12) * 5 + 35) % 90 + 3
    return Prompt(of, ids[:8], ids[8:])


@pytest.mark.parametrize(("seed", "fits"), [(0, True), (1, False)])
def test_a_patch_of_the_first_version_is_checked_as_it_was(tmp_path: Path, seed: int, fits: bool) -> None:
    of = as_model(tiny("llama").double())
    file = patch(prompt(of), "static").save(tmp_path / "p")
    with safe_open(file, framework="pt") as content:
        about = json.loads(content.metadata()["inweights"])
        tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    about["base"] = sampled(tiny("llama", seed).double())
    save_file(tensors, file, {"inweights": json.dumps(about)})
    if fits:
        assert Patch.load(file, of).base == of.fingerprint
    else:
        with pytest.raises(InputError, match="was made for other weights"):
            Patch.load(file, of)


@pytest.mark.parametrize(("seed", "fits"), [(0, True), (1, False)])
def test_an_adapter_of_the_first_version_is_checked_as_it_was(tmp_path: Path, seed: int, fits: bool) -> None:
    of = as_model(tiny("llama").float())
    update = Update(torch.ones(32, 1), torch.ones(64, 1))
    old = Card(base="tiny", base_fingerprint=sampled(tiny("llama", seed).float()), method="test", rank=1)
    if not fits:
        with pytest.raises(InputError, match="made for other weights"):
            Fold({DOWN: update}, old).require_fit(of)
        return
    Fold({DOWN: update}, old).save_pretrained(tmp_path / "a", of)
    again = load_fold(tmp_path / "a", of)
    assert again.card.base_fingerprint == of.fingerprint
    new = Fold({DOWN: update}, Card(base="tiny", base_fingerprint=of.fingerprint, method="test", rank=1))
    assert again.combined(new)[0].rank >= 1
