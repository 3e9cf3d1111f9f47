"""Patches as files, adapters and checkpoints; models from folders; everything foreign refused with one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from inweights import InputError
from inweights.models import Model, Patch, Prompt, anatomy, load, merged, patch, to_gguf, to_peft, verify
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.running._stepping import inputs

IDS = (torch.arange(20) * 5 + 35) % 90 + 3


def model(name: str = "llama", seed: int = 0, dtype: torch.dtype = torch.float64) -> Model:
    return as_model(tiny(name, seed).to(dtype))


def prompt(of: Model, asked: int = 6) -> Prompt:
    return Prompt(of, IDS[: 20 - asked], IDS[20 - asked :])


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "mixtral", "gpt2"])
@pytest.mark.parametrize("mode", ["token", "static"])
def test_a_patch_comes_back_from_its_file(name: str, mode: str, tmp_path: Path) -> None:
    of = model(name)
    made = patch(prompt(of), mode)
    made.save(tmp_path / "p.safetensors")
    again = Patch.load(tmp_path / "p.safetensors", of)
    assert verify(prompt(of), again).max_abs_logit_error == verify(prompt(of), made).max_abs_logit_error <= 1e-8
    assert [p.name for p in tmp_path.iterdir()] == ["p.safetensors"]


def broken(tmp_path: Path, how: str) -> tuple[Path, Model]:
    of, path = model(), tmp_path / "p"
    patch(prompt(of), "static").save(path)
    data = path.read_bytes()
    with safe_open(path, framework="pt") as file:
        about, tensors = file.metadata(), {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
    first = next(iter(tensors))
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "noise":
        path.write_bytes(b"\x00" * 100)
    elif how == "nan":
        tensors[first] = tensors[first] * torch.nan
        save_file(tensors, path, about)
    elif how == "shape":
        tensors["0.added.0.u"] = tensors["0.added.0.u"][:3].contiguous()
        save_file(tensors, path, about)
    elif how == "missing":
        del tensors["1.added.0.v"]
        save_file(tensors, path, about)
    elif how == "plain":
        save_file(tensors, path)
    elif how == "names":
        output = json.loads(about["inweights"])
        output["blocks"][0]["slots"][0][0] = "../../etc/passwd"
        save_file(tensors, path, {"inweights": json.dumps(output)})
    elif how == "base":
        of = model(seed=1)
    return path, of


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated", r"The patch .* cannot be read, .*: make the patch again"),
        ("noise", "cannot be read"),
        ("nan", "has NaN or infinite entries"),
        ("shape", "does not fit"),
        ("missing", "does not fit the model"),
        ("plain", "not a patch of this format"),
        ("names", "does not fit the model"),
        ("base", "was made for other weights"),
    ],
)
def test_a_corrupted_or_foreign_patch_is_refused(tmp_path: Path, how: str, words: str) -> None:
    path, of = broken(tmp_path, how)
    with pytest.raises(InputError, match=words):
        Patch.load(path, of)


def test_there_is_no_such_patch(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no patch file"):
        Patch.load(tmp_path / "none", model())


def logits(net: torch.nn.Module, asked: Prompt) -> torch.Tensor:
    with torch.no_grad():
        extra = inputs(asked.model.model, asked.reduced_ids, asked.reduced_positions)
        return net(input_ids=asked.reduced_ids, use_cache=False, **extra).logits


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_peft_loads_the_adapter_and_merges_it(name: str, tmp_path: Path) -> None:
    from peft import PeftModel

    of = model(name, dtype=torch.float32)
    asked = prompt(of)
    made = patch(asked, "static")
    with made.applied(of):
        want = logits(of.model, asked)
    bare = logits(of.model, asked)
    folder = to_peft(made, of, tmp_path / "adapter")
    assert {p.name for p in folder.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    output = json.loads((folder / "adapter_config.json").read_text())
    assert output["lora_alpha"] == output["r"]
    assert output["bias"] == "none"
    adapted = PeftModel.from_pretrained(tiny(name).float(), str(folder)).eval()
    torch.testing.assert_close(logits(adapted, asked), want, rtol=1e-4, atol=1e-4)
    assert (bare - want).abs().max() > 0.1
    whole = adapted.merge_and_unload()
    torch.testing.assert_close(logits(whole, asked), want, rtol=1e-4, atol=1e-4)


def test_a_gguf_adapter_holds_the_same_changes(tmp_path: Path) -> None:
    import gguf

    of = model(dtype=torch.float32)
    made = patch(prompt(of), "static")
    path = to_gguf(made, of, tmp_path / "a.gguf")
    reader = gguf.GGUFReader(path)
    output = {t.name: torch.from_numpy(t.data.copy()) for t in reader.tensors}
    alpha = float(reader.fields["adapter.lora.alpha"].parts[-1][0])
    A, B = output["blk.1.ffn_down.weight.lora_a"], output["blk.1.ffn_down.weight.lora_b"]
    name = "model.layers.1.mlp.down_proj.weight"
    changed = made.parameters(of)[name] - of.model.get_parameter(name)
    torch.testing.assert_close(B @ A * (alpha / A.shape[0]), changed, rtol=1e-4, atol=1e-5)
    assert len(output) == 2 * 3 * len(made.blocks)
    assert [p.name for p in tmp_path.iterdir()] == ["a.gguf"]


def test_a_merged_checkpoint_needs_nothing_else(tmp_path: Path) -> None:
    of = model(dtype=torch.float32)
    asked = prompt(of)
    made = patch(asked, "static")
    with made.applied(of):
        want = logits(of.model, asked)
    again = load(str(merged(made, of, tmp_path / "merged")))
    torch.testing.assert_close(logits(again.model, asked), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("gemma3_text", "static", "changes the vector .* and adapters change matrices only"),
        ("mixtral", "static", "experts that are stored together"),
        ("llama", "token", "its own changes for each of 6 query tokens"),
        ("xlnet", "static", "the matrix of the logits"),
    ],
)
def test_what_cannot_be_an_adapter_says_why(name: str, mode: str, words: str, tmp_path: Path) -> None:
    of = model(name)
    with pytest.raises(InputError, match=words):
        to_peft(patch(prompt(of), mode), of, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    of = model()
    with pytest.raises(InputError, match="which is not empty"):
        to_peft(patch(prompt(of), "static"), of, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


# --- models from folders -----------------------------------------------------------------------------


def saved(tmp_path: Path) -> Path:
    tiny("llama").float().save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    of = load(str(saved(tmp_path)), dtype="float64")
    assert of.tokenizer is None
    assert of.dtype == torch.float64
    assert verify(prompt(of), patch(prompt(of))).verdict == "PASS"
    assert of.fingerprint == load(str(tmp_path / "m")).fingerprint


def spoiled(tmp_path: Path, how: str) -> str:
    folder = saved(tmp_path)
    config = folder / "config.json"
    if how == "pickle":
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    elif how == "nothing":
        (folder / "model.safetensors").unlink()
    elif how == "code":
        config.write_text(json.dumps({**json.loads(config.read_text()), "auto_map": {"AutoModel": "evil.Model"}}))
    elif how == "nested":
        config.write_text(
            json.dumps({**json.loads(config.read_text()), "x": [{"_attn_implementation_internal": "a/b"}]})
        )
    elif how == "json":
        config.write_text("{")
    elif how == "config":
        config.unlink()
    elif how == "type":
        config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": "vit"}))
    return str(folder)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("pickle", "only pickled weights, which can run code when opened"),
        ("nothing", "which has no weights"),
        ("code", r"asks for code of its own \(auto_map\)"),
        ("nested", "_attn_implementation_internal"),
        ("json", "cannot be read, "),
        ("config", "has no config.json"),
        ("type", "could not be loaded as a causal language model"),
    ],
)
def test_folders_that_cannot_be_trusted_are_refused(tmp_path: Path, how: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(spoiled(tmp_path, how))


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("nonsense", {}, "neither 'smollm2', nor a folder, a .gguf file or a hub id"),
        ("none.gguf", {}, "there is no such file"),
        ("smollm2", {"dtype": "int8"}, "`dtype` is 'int8'"),
        ("smollm2", {"device": "cuda:99"}, "`device` is 'cuda:99', but torch finds only"),
    ],
)
def test_bad_names_get_one_sentence(spec: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(spec, **options)


def test_what_cannot_be_patched_is_said_before_any_work() -> None:
    of = model()
    last = of.anatomy.blocks[-1]
    from dataclasses import replace

    blocks = (*of.anatomy.blocks[:-1], replace(last, reason="no last matrix"))
    of.__dict__["anatomy"] = replace(of.anatomy, blocks=blocks)
    with pytest.raises(InputError, match=r"The last block of this model cannot be patched \(.*: no last matrix\)"):
        patch(prompt(of))


def test_anatomy_takes_any_transformers_model() -> None:
    assert anatomy(tiny("gpt2")).supported
