"""Folds as files: what PEFT, transformers and checkpoints make of them, what is refused, what a crash leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights import InputError
from inweights.folding._card import Card
from inweights.folding._fold import Fold, matrices
from inweights.folding._load import load_fold
from inweights.models import Model, load
from inweights.models._adapter import write_peft
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.theory import Update

IDS = ((torch.arange(20) * 5 + 35) % 90 + 3).unsqueeze(0)
FAMILIES = ["llama", "gpt2"]
FILES = {"adapter_config.json", "adapter_model.safetensors", "inweights.json", "README.md"}


def model(name: str = "llama", seed: int = 0) -> Model:
    return as_model(tiny(name, seed).float())


def fold(of: Model, ranks: tuple[int, ...] = (3,)) -> Fold:
    """Random updates of all matrices in the blocks, 0.3 times as large as these, of one rank or several in turn."""
    generator = torch.Generator().manual_seed(0)
    updates = {}
    for i, (name, (out, into)) in enumerate(matrices(of).items()):
        r = ranks[i % len(ranks)]
        made = Update(torch.randn(out, r, generator=generator), torch.randn(into, r, generator=generator))
        whole = of.model.get_parameter(f"{name}.weight").detach()
        updates[f"{name}.weight"] = made * float(0.3 * whole.norm() / made.frobenius())
    updates.pop("lm_head.weight")
    return Fold(updates, Card(base="tiny", base_fingerprint=of.fingerprint, method="random", rank=max(ranks)))


def logits(net: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return net(input_ids=IDS, use_cache=False).logits


def wanted(of: Model, made: Fold) -> torch.Tensor:
    """The logits with the fold; those without it must be far off, or nothing here would show anything."""
    with made.applied(of):
        want = logits(of.model)
    assert (logits(of.model) - want).abs().max() > 0.5
    return want


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    """Equal as far as float32 allows: the error is 5,000 times smaller than what the fold does."""
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


# --- round trips -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("ranks", [(3,), (3, 1, 5)])
def test_every_way_to_load_a_fold_gives_its_logits(name: str, ranks: tuple[int, ...], tmp_path: Path) -> None:
    from peft import PeftModel

    of = model(name)
    made = fold(of, ranks)
    want = wanted(of, made)
    folder = made.save_pretrained(tmp_path / "adapter", of)
    assert {p.name for p in folder.iterdir()} == FILES
    assert json.loads((folder / "adapter_config.json").read_text())["fan_in_fan_out"] is (name == "gpt2")

    adapted = PeftModel.from_pretrained(tiny(name).float(), str(folder)).eval()
    close(logits(adapted), want)
    close(logits(adapted.merge_and_unload()), want)

    plain: Any = tiny(name).float()
    plain.load_adapter(str(folder))
    close(logits(plain.eval()), want)

    merged = load(str(made.to_merged(tmp_path / "merged", of)))
    close(logits(merged.model), want)

    again = load_fold(folder, of)
    close(wanted(of, again), want)
    assert again.card.to_json() == replace(made.card, rank=max(ranks)).to_json()


def test_a_foreign_adapter_is_read_with_its_scaling(tmp_path: Path) -> None:
    """Written by PEFT itself: alpha over rank, patterns that are regular expressions, no card."""
    from peft import LoraConfig, get_peft_model

    for rs in (False, True):
        config = LoraConfig(
            r=4, lora_alpha=12, target_modules=["up_proj", "down_proj", "q_proj"], use_rslora=rs,
            rank_pattern={r"layers\.1\.mlp\.up_proj": 2, "q_proj": 3}, alpha_pattern={"down_proj": 5},
        )  # fmt: skip
        foreign: Any = get_peft_model(tiny("llama").float(), config).eval()
        generator = torch.Generator().manual_seed(0)
        for n, p in foreign.named_parameters():
            if "lora_B" in n:
                p.data = torch.randn(p.shape, generator=generator) * 0.2
        foreign.save_pretrained(str(tmp_path / f"a{rs}"))
        of = model()
        got = load_fold(tmp_path / f"a{rs}", of)
        close(wanted(of, got), logits(foreign))
        assert got.card.method == "foreign adapter"
        assert got.rank == 4
        saved = got.save_pretrained(tmp_path / f"b{rs}", of)
        close(wanted(of, load_fold(saved, of)), logits(foreign))


@pytest.mark.parametrize("form", ["peft", "gguf", "merged"])
def test_the_command_exports_an_adapter_at_a_strength(
    form: str, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    monkeypatch.chdir(tmp_path)
    tiny("llama").float().save_pretrained(base)
    of = load(str(base))
    made = fold(of)
    made.save_pretrained(tmp_path / "adapter", of)
    args = ["export", "adapter", "--model", "base", "--format", form, "--out", "out", "--strength", "0.5", "--json"]
    done = run(*args)
    expected = {"path": "out", "format": form, "portable": True, "reason": "", "warnings": [], "device": str(of.device)}
    assert json.loads(done.out) == expected, done.err
    want = wanted(of, 0.5 * made)
    if form == "peft":
        again = load_fold(tmp_path / "out", of)
        assert again.card.strength == 0.5
        close(wanted(of, again), want)
    elif form == "merged":
        close(logits(load(str(tmp_path / "out")).model), want)
    else:
        import gguf

        output = {t.name: torch.from_numpy(t.data.copy()) for t in gguf.GGUFReader(tmp_path / "out").tensors}
        B, A = (output[f"blk.1.ffn_down.weight.lora_{x}"] for x in "ba")
        close(B @ A, 0.5 * made.updates["model.layers.1.mlp.down_proj.weight"].dense())


def test_a_tensor_with_two_names_is_not_merged(tmp_path: Path) -> None:
    of = model("gpt2")
    made = Fold({"lm_head.weight": Update(torch.randn(99, 1), torch.randn(32, 1))}, Card())
    with pytest.raises(InputError, match=r"'transformer.wte.weight' and 'lm_head.weight' are one tensor"):
        made.to_merged(tmp_path / "m", of)
    assert list(tmp_path.iterdir()) == []


def test_gguf_of_a_family_with_unknown_rows_is_refused(tmp_path: Path) -> None:
    of = model("stablelm")
    with pytest.raises(InputError, match=r"not known in which order llama.cpp keeps the rows"):
        fold(of).to_gguf(tmp_path / "a.gguf", of)


# --- what a crash leaves -----------------------------------------------------------------------------


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    of = model()

    def broken(half: Path) -> None:
        assert (half / "adapter_model.safetensors").exists()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_peft(fold(of).factors(of), of, tmp_path / "a", broken)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    of = model()
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        fold(of).save_pretrained(tmp_path, of)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


KILLED = """
import sys, time
from pathlib import Path
import torch
from inweights.models._adapter import write_peft
from inweights.models._load import as_model
from inweights.models._tiny import tiny

def wait(half):
    Path(sys.argv[2]).touch()
    time.sleep(60)

of = as_model(tiny("llama").float())
write_peft({"model.layers.0.mlp.up_proj": (torch.ones(2, 32), torch.ones(64, 2))}, of, Path(sys.argv[1]), wait)
"""


def test_a_killed_process_leaves_no_folder_of_that_name(tmp_path: Path) -> None:
    folder, reached = tmp_path / "out" / "a", tmp_path / "reached"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder), str(reached)])
    try:
        for _ in range(600):
            if reached.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        assert reached.exists(), "it must be killed in the middle of writing, not before"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not folder.exists()
    assert all(p.name.startswith(".a.") for p in folder.parent.iterdir())
    of = model()
    fold(of).save_pretrained(folder, of)
    assert load_fold(folder, of).rank == 3
