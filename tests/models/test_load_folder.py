"""Models from folders: only whole, finite models without code or adapters are loaded, and without a network."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from inweights import InputError
from inweights.models import load
from inweights.models._complete import listed, require_complete
from inweights.models._tiny import tiny

DOWN = "model.layers.1.mlp.down_proj.weight"


def saved(folder: Path, name: str = "llama") -> Path:
    """A tiny model with a tokenizer, as `save_pretrained` writes it."""
    tiny(name).float().save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(90)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", eos_token="w1").save_pretrained(folder)
    return folder


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Rewrites the weights of a saved model."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def settings(folder: Path, name: str = "config.json", **values: Any) -> None:
    """Adds settings to one of the JSON files of a saved model."""
    file = folder / name
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_the_folder_that_the_other_tests_spoil_loads(tmp_path: Path) -> None:
    of = load(str(saved(tmp_path)))
    assert of.tokenizer("w3 w5")["input_ids"] == [3, 5]
    assert (of.name, of.path, of.revision) == (str(tmp_path), str(tmp_path), "")
    assert torch.equal(of.model.get_parameter(DOWN), tiny("llama").float().get_parameter(DOWN))


# --- missing, left-over and misshapen tensors ---------------------------------------------------------


def test_a_folder_that_lacks_one_tensor_is_refused(tmp_path: Path) -> None:
    weights(saved(tmp_path), lambda tensors: tensors.pop(DOWN))
    with pytest.raises(InputError, match=rf"lacks 1 tensor \({DOWN}\), which would be random"):
        load(str(tmp_path))


def test_sizes_that_the_weights_do_not_have_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    """In memory this model would have 500 GB."""
    settings(saved(tmp_path), hidden_size=1 << 16, vocab_size=1_000_000, head_dim=1 << 14)
    with pytest.raises(InputError, match=r"holds 34,\d+ values, but its configuration asks for (\d{3},?){4}"):
        load(str(tmp_path))


def test_names_are_listed_up_to_three_and_counted() -> None:
    assert listed(["a"]) == "1 tensor (a)"
    assert listed(list("abcde")) == "5 tensors (a, b, c, …)"


def test_all_that_is_missing_or_misshapen_is_said_at_once(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if "layers.0.mlp" in name or "layers.0.self_attn" in name]:
            del tensors[name]
        tensors[DOWN] = tensors[DOWN][:-1].contiguous()

    weights(saved(tmp_path), change)
    with pytest.raises(InputError) as error:
        load(str(tmp_path))
    first, second = str(error.value).splitlines()
    assert "lacks 7 tensors (model.layers.0.mlp.down_proj.weight, " in first
    assert f"has 1 tensor ({DOWN} (31, 64) instead of (32, 64)), a shape that its configuration does not give" in second


@pytest.mark.parametrize(
    "name", ["model.layers.3.mlp.down_proj.weight", "model.layers.0.self_attn.q_norm.weight", "model.norm.bias"]
)
def test_tensors_left_over_in_the_layers_are_refused(tmp_path: Path, name: str) -> None:
    weights(saved(tmp_path), lambda tensors: tensors.update({name: torch.ones(3)}))
    with pytest.raises(InputError, match=rf"has 1 tensor \({name}\) in its layers, which its configuration leaves"):
        load(str(tmp_path))


@pytest.mark.parametrize(
    "name",
    ["score.weight", "vision_tower.layers.0.weight", "model.layers.0.self_attn.rotary_emb.inv_freq",
     "model.layers.0.self_attn.masked_bias", "model.rotary_emb.inv_freq"],
)  # fmt: skip
def test_tensors_of_other_parts_and_computed_ones_are_no_fault(tmp_path: Path, name: str) -> None:
    weights(saved(tmp_path), lambda tensors: tensors.update({name: torch.ones(3)}))
    assert load(str(tmp_path)).path == str(tmp_path)


@pytest.mark.parametrize("name", ["gpt2", "gemma3_text", "mixtral", "opt", "bart"])
def test_tied_and_converted_weights_are_not_taken_for_missing(tmp_path: Path, name: str) -> None:
    net = tiny(name).float()
    net.save_pretrained(tmp_path)
    assert load(str(tmp_path), dtype="float64").fingerprint == load(str(tmp_path)).fingerprint


def test_the_report_of_a_whole_model_passes() -> None:
    require_complete("m", tiny("llama"), {"missing_keys": set(), "mismatched_keys": set(), "unexpected_keys": set()})


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float, dtype: str) -> None:
    weights(saved(tmp_path), lambda tensors: tensors[DOWN][3].fill_(value))
    with pytest.raises(InputError, match=rf"has NaN or infinite values in 1 tensor \({DOWN}\)"):
        load(str(tmp_path), dtype=dtype)


def test_large_values_whose_sum_overflows_are_finite(tmp_path: Path) -> None:
    weights(saved(tmp_path), lambda tensors: tensors[DOWN][3].fill_(3e38))
    assert load(str(tmp_path)).model.get_parameter(DOWN)[3, 0] == 3e38


@pytest.mark.parametrize("size", [0, 7, 100, 20_000])
def test_truncated_weights_are_refused(tmp_path: Path, size: int) -> None:
    file = saved(tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(InputError, match="could not be loaded as a causal language model: ") as error:
        load(str(tmp_path))
    assert "\n" not in str(error.value)


# --- adapters, code, files from elsewhere ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_adapter_in_the_folder_is_never_applied_or_followed(tmp_path: Path, name: str, whole: bool) -> None:
    if whole:
        saved(tmp_path)
    (tmp_path / name).write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "owner/other"}))
    with pytest.raises(InputError, match=rf"holds an adapter \({name}\), which would change the model or load another"):
        load(str(tmp_path))


def test_a_real_adapter_would_have_been_applied(tmp_path: Path) -> None:
    """What is refused is a danger: transformers itself applies the adapter to what it loads."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    adapted = get_peft_model(tiny("llama").float(), LoraConfig(target_modules=["down_proj"], init_lora_weights=False))
    adapted.save_pretrained(str(saved(tmp_path)))
    theirs: Any = AutoModelForCausalLM.from_pretrained(str(tmp_path))
    assert any("lora_A" in name for name, _ in theirs.named_parameters())
    with pytest.raises(InputError, match="holds an adapter"):
        load(str(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("key", ["auto_map", "trust_remote_code"])
@pytest.mark.parametrize("depth", [0, 1])
def test_code_keys_are_refused(tmp_path: Path, name: str, key: str, depth: int) -> None:
    value: dict[str, Any] = {key: {"AutoModelForCausalLM": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}}
    settings(saved(tmp_path), name, **(value if depth == 0 else {"extra": [value]}))
    with pytest.raises(InputError, match=rf"{name}' asks for code of its own \({key}\): not run here"):
        load(str(tmp_path))


@pytest.mark.parametrize("name", ["modeling_evil.py", "tokenization_evil.py", "custom_generate/generate.py"])
def test_code_files_are_refused(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path) / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise SystemExit")
    with pytest.raises(InputError, match=rf"brings code of its own \({name}\): not run here"):
        load(str(tmp_path))


def test_a_script_that_no_loader_runs_is_no_fault(tmp_path: Path) -> None:
    (saved(tmp_path) / "train.py").write_text("raise SystemExit")
    assert load(str(tmp_path)).path == str(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("_attn_implementation", "owner/kernel", "owner/kernel"),
        ("attn_implementation", "owner/kernel@v1:attend", "owner/kernel@v1:attend"),
        ("_attn_implementation_internal", "owner/kernel", "owner/kernel"),
        ("experts_implementation", {"text_config": "owner/kernel"}, "owner/kernel"),
        ("_attn_implementation", "flash_attention_2", "flash_attention_2"),
    ],
)
@pytest.mark.parametrize("depth", [0, 1])
def test_implementations_from_elsewhere_are_refused(
    tmp_path: Path, key: str, value: Any, name: str, depth: int
) -> None:
    settings(saved(tmp_path), **({key: value} if depth == 0 else {"text_config": {key: value}}))
    with pytest.raises(InputError, match=rf"sets {key} to '{name}', which would fetch or import code from elsewhere"):
        load(str(tmp_path))


@pytest.mark.parametrize("name", ["eager", "sdpa", None])
def test_implementations_of_torch_are_harmless(tmp_path: Path, name: str | None) -> None:
    settings(saved(tmp_path), _attn_implementation=name)
    of: Any = load(str(tmp_path)).model
    assert of.config._attn_implementation == name or name is None


def test_another_configuration_in_its_place_is_refused(tmp_path: Path) -> None:
    settings(saved(tmp_path), configuration_files=["config.5.0.json"])
    with pytest.raises(InputError, match="names other files to use instead of itself"):
        load(str(tmp_path))


def sharded(folder: Path) -> Path:
    """A saved model in several files; returns the index."""
    saved(folder)
    (folder / "model.safetensors").unlink()
    tiny("llama").float().save_pretrained(folder, max_shard_size="40KB")
    return folder / "model.safetensors.index.json"


def test_shards_are_loaded_together(tmp_path: Path) -> None:
    assert sharded(tmp_path).is_file()
    assert torch.equal(load(str(tmp_path)).model.get_parameter(DOWN), tiny("llama").float().get_parameter(DOWN))


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/secret.safetensors", "pytorch_model.bin"])
def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    index = sharded(tmp_path / "m")
    content = json.loads(index.read_text())
    content["weight_map"][DOWN] = name
    index.write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"names '{name}', which is no safetensors file beside it"):
        load(str(tmp_path / "m"))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    gone = json.loads(sharded(tmp_path).read_text())["weight_map"][DOWN]
    (tmp_path / gone).unlink()
    with pytest.raises(InputError, match=f"has an index that names '{gone}', but no such file"):
        load(str(tmp_path))


@pytest.mark.parametrize("content", ["[]", '{"weight_map": {"a": 1}}', '{"weight_map": 1}'])
def test_an_index_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    sharded(tmp_path).write_text(content)
    with pytest.raises(InputError, match=r"has no table of tensors and files|holds a list instead of a JSON object"):
        load(str(tmp_path))


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    (saved(tmp_path) / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(InputError, match=r"The tokenizer of `model` .* could not be loaded"):
        load(str(tmp_path))


# --- no network -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["5.22.2", "4.50.0"])
def test_a_folder_opens_no_socket(tmp_path: Path, version: str, sockets: list[str]) -> None:
    """Also where transformers would ask the hub whether a tokenizer is one of Mistral's."""
    settings(saved(tmp_path, "mistral"), transformers_version=version)
    assert load(str(tmp_path)).tokenizer is not None
    assert sockets == []


def test_the_guard_of_the_network_can_fail(sockets: list[str]) -> None:
    with pytest.raises(OSError, match="no network in this test"):
        socket.create_connection(("127.0.0.1", 9))
    assert sockets == ["create_connection"]
