"""`load_fold` on folders that cannot be trusted: every refusal, all problems at once, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from inweights import InputError
from inweights.folding._card import Card
from inweights.folding._fold import Fold
from inweights.folding._load import load_fold
from inweights.models import Model
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.theory import Update


def model(name: str = "llama", seed: int = 0) -> Model:
    return as_model(tiny(name, seed).float())


def wide() -> torch.nn.Module:
    """The modules of the same names, but with larger matrices."""
    shape = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2, vocab_size=99)).eval()


def fold(of: Model) -> Fold:
    names = [f"model.layers.{i}.mlp.up_proj.weight" for i in range(2)]
    updates = {name: Update(torch.randn(64, 3), torch.randn(32, 3)) for name in names}
    return Fold(updates, Card(base="tiny", base_fingerprint=of.fingerprint, method="random", rank=3))


Spoil = Callable[[Path], Any]
UP = "base_model.model.model.layers.0.mlp.up_proj.lora_"


def setting(**changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        found = load_file(path)
        change(found)
        path.unlink()
        save_file(found, path)

    return spoil


def put(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    return tensors(lambda t: t.update({name: change(t[name]).contiguous()}))


def named(name: str) -> Spoil:
    return tensors(lambda t: t.update({name: torch.ones(3, 32)}))


def text(file: str, content: str | bytes) -> Spoil:
    return lambda folder: _write(folder / file, content)


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def linked(file: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / file).rename(folder.parent / "outside")
        (folder / file).symlink_to("../outside")

    return spoil


def looped(folder: Path) -> None:
    (folder / "adapter_config.json").unlink()
    (folder / "adapter_config.json").symlink_to("adapter_config.json")


def pickled(folder: Path) -> None:
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")


def carded(**changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "inweights.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def petabytes(folder: Path) -> None:
    about = {UP + "A.weight": {"dtype": "F32", "shape": [10**15], "data_offsets": [0, 4 * 10**15]}}
    header = json.dumps(about).encode()
    _write(folder / "adapter_model.safetensors", len(header).to_bytes(8, "little") + header)


million = json.dumps({"peft_type": "LORA", "rank_pattern": {f"a{i}": 1 for i in range(10**6)}})


REFUSALS: dict[str, tuple[Spoil, str]] = {
    "no config": (lambda f: (f / "adapter_config.json").unlink(), "has no adapter_config.json"),
    "config is a folder": (
        lambda f: ((f / "adapter_config.json").unlink(), (f / "adapter_config.json").mkdir()),
        "has no adapter_config.json",
    ),
    "bad json": (text("adapter_config.json", "{"), "column 2 is not JSON"),
    "json of a list": (text("adapter_config.json", "[]"), "holds a list instead of a JSON object: make the adapter"),
    "json too deep": (text("adapter_config.json", "[" * 10**5), "nested more than 64 levels deep"),
    "no text": (text("adapter_config.json", b"\xff\xfe\xff"), "it is not UTF-8 text"),
    "another method": (setting(peft_type="IA3"), "peft_type 'IA3', but only LORA"),
    "no method": (setting(peft_type=None), "peft_type None, but only LORA"),
    "bias": (setting(bias="all"), "it changes biases"),
    "dora": (setting(use_dora=True), "DoRA"),
    "modules": (setting(modules_to_save=["lm_head"]), "whole modules of its own"),
    "lora bias": (setting(lora_bias=True), "its layers have biases"),
    "activated": (setting(alora_invocation_tokens=[1]), "it sets 'alora_invocation_tokens'"),
    "a later PEFT": (setting(use_quantum=True), "it sets 'use_quantum'"),
    "pissa": (setting(init_lora_weights="pissa"), "'pissa' changes the base weights"),
    "init is a list": (setting(init_lora_weights=[]), "changes the base weights"),
    "rank is text": (setting(r="3"), "'3' for 'r'"),
    "rank is another": (setting(r=4), "factors of ranks 3 and 3 for .* says 4"),
    "alpha": (setting(lora_alpha=float("nan")), "it holds NaN, which is not a number"),
    "alpha too large": (setting(lora_alpha=1e308), "makes it infinite"),
    "pattern": (setting(rank_pattern={"(a+)+$": 3}), r"which is not a plain pattern"),
    "pattern invalid": (setting(alpha_pattern={"[": 3}), "which is not a plain pattern"),
    "pattern value": (setting(alpha_pattern={"up_proj": "x"}), "'x' for 'up_proj'"),
    "a million patterns": (text("adapter_config.json", million), "it is larger than 1048576 bytes"),
    "many patterns": (setting(rank_pattern={f"a{i}": 3 for i in range(1000)}), "1000 patterns in rank_pattern, but"),
    "slow patterns": (setting(rank_pattern={".*.*.*x": 3}), "which is not a plain pattern"),
    "later set syntax": (setting(rank_pattern={"[[a]": 3}), "which is not a plain pattern"),
    "rslora": (setting(use_rslora="no"), "'no' for 'use_rslora', but that must be true or false"),
    "negative rank": (setting(r=-3), "-3 for 'r', but that must be a number above 0"),
    "10^400": (text("adapter_config.json", '{"r": 1' + "0" * 400 + "}"), "an integer of 401 digits, above 308"),
    "1e400": (text("adapter_config.json", '{"lora_alpha": 1e400}'), "'1e400', a number larger than every float"),
    "twice": (text("adapter_config.json", '{"r": 1, "r": 2}'), "the key 'r' twice"),
    "a byte order mark": (text("adapter_config.json", b"\xef\xbb\xbf{}"), "begins with a byte order mark"),
    "patterns": (setting(alpha_pattern=[1]), "alpha_pattern that is no object"),
    "nan": (put(UP + "A.weight", lambda t: t * torch.nan), "NaN or infinite entries in .*up_proj.lora_A"),
    "inf": (put(UP + "B.weight", lambda t: t / 0), "NaN or infinite entries in .*up_proj.lora_B"),
    "shape of A": (put(UP + "A.weight", lambda t: t[:, :-1]), r"of shape \(3, 31\), but it must be \(r, 32\)"),
    "shape of B": (put(UP + "B.weight", lambda t: t.mT), r"of shape \(3, 64\), but it must be \(64, r\)"),
    "dimensions": (put(UP + "B.weight", lambda t: t[None]), r"of shape \(1, 64, 3\), but it must be"),
    "rank 0": (put(UP + "A.weight", lambda t: t[:0]), r"of shape \(0, 32\)"),
    "ranks differ": (put(UP + "A.weight", lambda t: t[:2]), "factors of ranks 2 and 3"),
    "integers": (put(UP + "A.weight", lambda t: t.long()), "as I64, which is no plain float"),
    "no B": (tensors(lambda t: t.pop(UP + "B.weight")), "has lora_A of 'model.layers.0.mlp.up_proj', but no lora_B"),
    "no A": (tensors(lambda t: t.pop(UP + "A.weight")), "has lora_B of 'model.layers.0.mlp.up_proj', but no lora_A"),
    "nothing": (tensors(lambda t: t.clear()), "holds no factors at all"),
    "foreign name": (named("model.layers.0.weight"), "'model.layers.0.weight', which is no factor of a layer"),
    "embedding": (named("base_model.model.model.embed_tokens.lora_embedding_A"), "which is no factor of a layer"),
    "no such layer": (
        named("base_model.model.model.layers.7.mlp.up_proj.lora_A.weight"), "but the model has no such matrix",
    ),
    "a norm": (named("base_model.model.model.norm.lora_A.weight"), "but the model has no such matrix"),
    "an embedding": (named("base_model.model.model.embed_tokens.lora_A.weight"), "but the model has no such matrix"),
    "upwards": (named("base_model.model.../../etc/passwd.lora_A.weight"), "which is no factor of a layer"),
    "dots": (named("base_model.model.model..layers.lora_A.weight"), "which is no factor of a layer"),
    "truncated": (
        lambda f: _write(f / "adapter_model.safetensors", (f / "adapter_model.safetensors").read_bytes()[:-9]),
        "its tensors should have",
    ),
    "noise": (text("adapter_model.safetensors", b"\0" * 100), "The header of .* it is empty"),
    "too large": (text("adapter_model.safetensors", b"\0" * 2_000_000), "the limit for such a file"),
    "huge json": (text("adapter_config.json", b" " * (1 << 25)), "it is larger than 1048576 bytes"),
    "no weights": (lambda f: (f / "adapter_model.safetensors").unlink(), "has no adapter_model.safetensors"),
    "pickle": (pickled, "only pickled weights, which can run code"),
    "link to config": (linked("adapter_config.json"), "adapter_config.json is a link that leaves the folder"),
    "link to weights": (linked("adapter_model.safetensors"), "adapter_model.safetensors is a link that leaves"),
    "link to card": (linked("inweights.json"), "inweights.json is a link that leaves"),
    "link to itself": (looped, "adapter_config.json is a link that leaves"),
    "another base": (carded(base_fingerprint="00ff"), "made for other weights"),
    "card": (carded(rank="x"), "'rank': Input should be a valid integer"),
    "card counts": (carded(rank=-1), "'rank': Input should be greater than or equal to 0"),
    "card hashes": (carded(calibration={"seen": [[1]]}), "'seen' in its 'calibration' that is no list of hashes"),
    "petabytes": (petabytes, "its tensors should have 4000000000000000 bytes"),
    "card is no json": (text("inweights.json", "{"), "The card .*inweights.json' cannot be read, column 2"),
    "card is no text": (text("inweights.json", b"\xff"), "The card .* is not UTF-8 text"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    of = model()
    return fold(of).save_pretrained(tmp_path_factory.mktemp("sound") / "a", of), of


def copied(sound: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "a"
    folder.mkdir()
    for path in sound.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_the_sound_one_loads(sound: tuple[Path, Model], tmp_path: Path) -> None:
    assert load_fold(copied(sound[0], tmp_path), sound[1]).rank == 3


@pytest.mark.parametrize("what", REFUSALS)
def test_what_is_refused_and_why(what: str, sound: tuple[Path, Model], tmp_path: Path) -> None:
    spoil, words = REFUSALS[what]
    folder = copied(sound[0], tmp_path)
    spoil(folder)
    with pytest.raises(InputError, match=words):
        load_fold(folder, sound[1])


def test_all_problems_are_said_at_once(sound: tuple[Path, Model], tmp_path: Path) -> None:
    folder = copied(sound[0], tmp_path)
    wrong = ["dora", "bias", "nan", "foreign name", "another base"]
    for what in wrong:
        REFUSALS[what][0](folder)
    with pytest.raises(InputError) as said:
        load_fold(folder, sound[1])
    assert len(str(said.value).splitlines()) == len(wrong)


def test_an_adapter_of_another_model_is_refused(sound: tuple[Path, Model]) -> None:
    with pytest.raises(InputError, match="made for other weights"):
        load_fold(sound[0], model(seed=1))
    with pytest.raises(InputError, match=r"weights, .* give the model that it was made for, .tiny") as said:
        load_fold(sound[0], model("gpt2"))
    assert len(str(said.value).splitlines()) == 1


@pytest.mark.parametrize("family", ["gpt2", "wide"])
def test_a_foreign_adapter_of_another_model_gets_one_sentence(
    family: str, sound: tuple[Path, Model], tmp_path: Path
) -> None:
    """It has no fingerprint: names that the model does not have, or shapes."""
    folder = copied(sound[0], tmp_path)
    (folder / "inweights.json").unlink()
    other = model("gpt2") if family == "gpt2" else as_model(wide())
    for use in (lambda: load_fold(folder, other), lambda: load_fold(folder, sound[1]).applied(other).__enter__()):
        with pytest.raises(InputError, match=r"are those of another model than .* matrices do not fit it") as said:
            use()
        assert len(str(said.value).splitlines()) == 1


def test_there_is_no_such_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(InputError, match="There is no adapter folder"):
            load_fold(path, model())


def test_a_link_within_the_folder_is_fine(sound: tuple[Path, Model], tmp_path: Path) -> None:
    folder = copied(sound[0], tmp_path)
    (folder / "inweights.json").rename(folder / "card.json")
    (folder / "inweights.json").symlink_to("card.json")
    assert load_fold(folder, sound[1]).card.base == "tiny"


def test_the_command_refuses_in_sentences(
    tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    tiny("llama").float().save_pretrained(tmp_path / "base")
    for source, words in (("a", "has no adapter_config.json"), ("none", "no patch file or adapter folder")):
        done = run("export", source, "--model", "base", "--out", "out")
        assert done.code == 2
        assert words in done.err
        assert "Traceback" not in done.err
