"""Models from GGUF files, and the cache of their conversions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from inweights import InputError
from inweights.models import load
from inweights.models._tiny import tiny

DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def written(path: Path, without: str = "", spoil: Callable[[str, Any], Any] = lambda _, values: values) -> Path:
    """A tiny llama as a GGUF file, with as many tokens as it has rows."""
    net: Any = tiny("llama").float()
    config = net.config
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([chr(ord("a") + i % 26) * (1 + i // 26) for i in range(config.vocab_size)])
    writer.add_token_merges(["a a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in net.state_dict().items():
        if name != without:
            base, _, suffix = name.rpartition(".")
            writer.add_tensor(f"{names.get_name(base)}.{suffix}", spoil(name, tensor).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_a_model_and_is_converted_once(tmp_path: Path, home: Path) -> None:
    file = written(tmp_path / "m.gguf")
    of = load(str(file))
    assert torch.equal(of.model.get_parameter(DOWN), tiny("llama").float().get_parameter(DOWN))
    assert of.tokenizer is not None
    assert (of.name, of.revision, Path(of.path).parent) == (str(file), "", home)
    before = (Path(of.path) / "model.safetensors").stat().st_mtime_ns
    assert load(str(file)).fingerprint == of.fingerprint
    assert (Path(of.path) / "model.safetensors").stat().st_mtime_ns == before
    assert [p.name for p in home.iterdir()] == [Path(of.path).name]


def test_a_missing_tensor_is_refused_and_nothing_is_kept(tmp_path: Path, home: Path) -> None:
    file = written(tmp_path / "m.gguf", without=DOWN)
    with pytest.raises(InputError, match=rf"m.gguf' lacks 1 tensor \({DOWN}\), which would be random"):
        load(str(file))
    assert list(home.iterdir()) == []


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "m.gguf", spoil=lambda name, t: t * torch.nan if name == DOWN else t)
    with pytest.raises(InputError, match=rf"has NaN or infinite values in 1 tensor \({DOWN}\)"):
        load(str(file))


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_beside_the_file_is_never_applied_or_followed(tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "m.gguf")
    (tmp_path / name).write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "owner/other"}))
    with pytest.raises(InputError, match=rf"beside which lies an adapter \({name}\), which would change it"):
        load(str(file))
    (tmp_path / name).unlink()
    assert load(str(file)).name == str(file)


def test_configurations_beside_the_file_are_not_read(tmp_path: Path) -> None:
    """transformers takes the tokenizer's class, and code for it, from a tokenizer_config.json beside the file."""
    file = written(tmp_path / "m.gguf")
    evil = {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}, "tokenizer_class": "Evil"}
    for name in ("tokenizer_config.json", "config.json"):
        (tmp_path / name).write_text(json.dumps(evil))
    of = load(str(file))
    assert "auto_map" not in (Path(of.path) / "tokenizer_config.json").read_text()


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(str(tmp_path / "a.gguf"), "llama")
    writer.add_string("general.type", "adapter")
    writer.add_tensor("blk.1.ffn_down.weight.lora_a", torch.ones(2, 64).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match=r"a.gguf', which holds no model, but is of type 'adapter'"):
        load(str(tmp_path / "a.gguf"))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + b"\xff" * 100])
def test_a_damaged_file_is_refused_with_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(InputError, match="could not be read as a GGUF model") as error:
        load(str(tmp_path / "m.gguf"))
    assert "\n" not in str(error.value)


# --- the cache --------------------------------------------------------------------------------------------


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "sealed.json"])
@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
def test_a_damaged_conversion_is_made_again(tmp_path: Path, name: str, damage: Callable[[Path], object]) -> None:
    file = written(tmp_path / "m.gguf")
    of = load(str(file))
    whole = {p.name: p.read_bytes() for p in Path(of.path).iterdir() if p.suffix != ".note"}
    damage(Path(of.path) / name)
    assert load(str(file)).fingerprint == of.fingerprint
    assert {p.name: p.read_bytes() for p in Path(of.path).iterdir() if p.suffix != ".note"} == whole


def test_a_conversion_without_checksums_is_made_again(tmp_path: Path) -> None:
    """As the first version left them."""
    file = written(tmp_path / "m.gguf")
    folder = Path(load(str(file)).path)
    for note in (folder / "sealed.json", *folder.glob("*.note")):
        note.unlink()
    load(str(file))
    assert (folder / "sealed.json").is_file()


def test_abandoned_conversions_are_removed_once_they_are_old(tmp_path: Path, home: Path) -> None:
    old, recent = home / ".half-old", home / ".half-recent"
    for folder in (old, recent):
        (folder / "model").mkdir(parents=True)
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    load(str(written(tmp_path / "m.gguf")))
    assert not old.exists()
    assert recent.exists()


def test_a_gguf_file_opens_no_socket_and_no_call_trusts_code(
    tmp_path: Path, sockets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    trusted = []
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoTokenizer):

        def spied(*args: Any, _real: Any = auto.from_pretrained, **options: Any) -> Any:
            trusted.append(options["trust_remote_code"])
            return _real(*args, **options)

        monkeypatch.setattr(auto, "from_pretrained", spied)
    assert load(str(written(tmp_path / "m.gguf"))).tokenizer is not None
    assert sockets == []
    assert trusted == [False] * 4, "model and tokenizer, of the file and of its conversion"
