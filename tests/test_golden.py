"""Files written by an earlier version are read, and give the same results as then: see `golden/write.py`."""

from __future__ import annotations

import copy
import json
import math
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import inweights as iw
from inweights.lab import sweep as sweeps
from inweights.lab import training, zoo
from inweights.ledger import Entry, Kept, read_entries
from inweights.ledger._cache import read as read_trial

GOLDEN = Path(__file__).parent / "golden"
BASES = ("llama", "gemma3")
MODES: tuple[Literal["token", "static"], ...] = ("token", "static")
TRAININGS = ("decoder", "lsa")
SAME = 1e-12  # of float64, also where another processor sums in another order
PROMPTS = 64  # that the cells of the sweep were measured on


class SeenError(Exception):
    """Ends a sweep before it trains anything."""


def asked(model: iw.Model) -> iw.Prompt:
    """The prompt of the golden patches: text, or token ids if there is no tokenizer."""
    if model.tokenizer is not None:
        return iw.Prompt(model, "Be brief.", " So?")
    return iw.Prompt(model, [5, 9, 31, 2, 17], [8, 3, 22])


def logits(model: iw.Model, prompt: iw.Prompt, patch: iw.Patch | None = None) -> Tensor:
    """The logits of the query without its context, `(query, vocabulary)`; in token mode one token at a time."""
    net, given = model.model, prompt.reduced_inputs
    with torch.no_grad():
        if patch is None:
            return net(**given).logits[0]
        if patch.mode == "static":
            with patch.applied(model):
                return net(**given).logits[0]
        result, cache = [], None
        for i in range(prompt.asked):
            now = {name: t[:, i : i + 1] for name, t in given.items() if name != "attention_mask"}
            mask = torch.ones(1, i + 1, dtype=torch.int64)
            with patch.applied(model, i):
                out = net(**now, attention_mask=mask, past_key_values=cache, use_cache=True)
            result.append(out.logits[0, -1])
            cache = out.past_key_values
        return torch.stack(result)


def about(patch: iw.Patch) -> dict[str, Any]:
    """The description of a patch, without its numbers."""
    blocks = [[b.block.name, b.rank, b.exact, b.inversion] for b in patch.blocks]
    return {"mode": patch.mode, "tokens": patch.tokens, "base": patch.base, "exact": patch.exact, "blocks": blocks}


def answers(learner: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """The predictions of a trained model on stored prompts, in float64."""
    with torch.no_grad():
        return learner.double().eval()(inputs["xs"], inputs["ys"])


def summary(kept: Kept) -> dict[str, Any]:
    """A summary of the result of a trial: the count and the sum of the numbers of each quantity."""
    numbers = {name: [len(values), math.fsum(values)] for name, (values, _) in kept.quantities.items()}
    controls = {name: [len(values), math.fsum(values)] for name, (_, values) in kept.quantities.items() if values}
    return {"outcome": kept.outcome, "numbers": numbers, "controls": controls, "told": kept.told}


def says(name: str) -> Any:
    """A golden file of JSON."""
    return json.loads((GOLDEN / name).read_text())


def far(one: Tensor, other: Tensor) -> float:
    """The largest difference."""
    return float((one - other).abs().max())


@pytest.fixture(scope="module")
def bases() -> dict[str, iw.Model]:
    """The models, from their folders."""
    return {name: iw.load(str(GOLDEN / name), dtype="float64", device="cpu") for name in BASES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BASES)
def test_a_patch_gives_the_logits_that_it_gave(bases: dict[str, iw.Model], name: str, mode: str) -> None:
    model, expected = bases[name], load_file(GOLDEN / "patches" / "expected.safetensors")
    patch = iw.Patch.load(GOLDEN / "patches" / f"{name}-{mode}.safetensors", model)
    assert about(patch) == says("patches/expected.json")[f"{name}-{mode}"]
    prompt = asked(model)
    assert prompt.ids.tolist() == expected[f"{name}-ids"].tolist()
    want = expected[f"{name}-{mode}"]
    assert far(logits(model, prompt, patch), want) <= SAME
    bare = logits(model, prompt)
    assert far(bare, expected[f"{name}-bare"]) <= SAME
    assert far(bare, want) > 1e-3
    assert iw.verify(prompt, patch).verdict == "PASS"
    (other,) = (bases[each] for each in BASES if each != name)
    with pytest.raises(iw.InputError, match="was made for other weights"):
        iw.Patch.load(GOLDEN / "patches" / f"{name}-{mode}.safetensors", other)


def test_a_folded_adapter_gives_the_logits_that_it_gave(bases: dict[str, iw.Model], tmp_path: Path) -> None:
    model, expected = bases["llama"], load_file(GOLDEN / "fold" / "expected.safetensors")
    fold = iw.load_fold(GOLDEN / "fold" / "adapter", model)
    prompt = asked(model)
    with fold.applied(model):
        assert far(logits(model, prompt), expected["folded"]) <= SAME
    assert far(logits(model, prompt), expected["folded"]) > 1e-3
    with (fold * 0.5).applied(model):
        assert far(logits(model, prompt), expected["folded"]) > 1e-3
    shutil.copytree(GOLDEN / "fold" / "adapter", tmp_path / "changed")
    weights = load_file(tmp_path / "changed" / "adapter_model.safetensors")
    save_file({n: t * 1.5 for n, t in weights.items()}, tmp_path / "changed" / "adapter_model.safetensors")
    with iw.load_fold(tmp_path / "changed", model).applied(model):
        assert far(logits(model, prompt), expected["folded"]) > 1e-3


def test_the_card_of_an_adapter_is_unchanged(bases: dict[str, iw.Model], tmp_path: Path) -> None:
    output = says("fold/adapter/inweights.json")
    card = iw.load_fold(GOLDEN / "fold" / "adapter", bases["llama"]).card
    assert output.pop("format") == "inweights-fold-1"
    assert len(output) == 13
    assert {name: getattr(card, name) for name in output} == output
    assert card.base_fingerprint == bases["llama"].fingerprint
    assert (card.method, card.rank, card.chat) == ("match", 2, True)
    assert json.loads(card.to_json()).items() >= output.items()
    with pytest.raises(iw.InputError, match="was made for other weights"):
        iw.load_fold(GOLDEN / "fold" / "adapter", iw.Model(spoiled(bases["llama"])))
    shutil.copytree(GOLDEN / "fold" / "adapter", tmp_path / "changed")
    (tmp_path / "changed" / "inweights.json").write_text(json.dumps(output))
    with pytest.raises(iw.InputError, match="not a card of this format"):
        iw.load_fold(tmp_path / "changed", bases["llama"])


def spoiled(model: iw.Model) -> torch.nn.Module:
    """The same network with one number changed."""
    net = copy.deepcopy(model.model)
    with torch.no_grad():
        next(net.parameters())[0, 0] += 1
    return net


def test_an_adapter_is_written_for_llama_cpp_as_it_was(bases: dict[str, iw.Model], tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")

    def tensors(path: Path) -> dict[str, Any]:
        return {t.name: t.data.copy() for t in gguf.GGUFReader(path).tensors}

    fold = iw.load_fold(GOLDEN / "fold" / "adapter", bases["llama"])
    want = tensors(GOLDEN / "fold" / "adapter.gguf")
    result = tensors(fold.to_gguf(tmp_path / "same.gguf"))
    other = tensors((fold * 0.5).to_gguf(tmp_path / "other.gguf"))
    assert len(want) > 0
    assert result.keys() == want.keys() == other.keys()
    assert all((result[name] == want[name]).all() for name in want)
    assert any((other[name] != want[name]).any() for name in want)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_trained_model_answers_as_it_did(name: str, tmp_path: Path) -> None:
    inputs, output = load_file(GOLDEN / "lab" / name / "expected.safetensors"), says(f"lab/{name}/expected.json")
    learner, recipe, result = zoo.trained(str(GOLDEN / "lab" / name / "done"))
    assert far(answers(learner, inputs), inputs["answers"]) <= SAME
    assert far(answers(training.build(recipe), inputs), inputs["answers"]) > 1e-3
    assert {key: result[key] for key in ("loss", "device")} == {key: output[key] for key in ("loss", "device")}
    assert json.loads(recipe.model_dump_json()).items() >= output["recipe"].items()
    assert training.load_trained(GOLDEN / "lab" / name / "done" / "model.safetensors")[1] == recipe
    assert recipe != training.changed(recipe, ["seed=7"])
    # There is nothing left to do for it.
    shutil.copytree(GOLDEN / "lab" / name / "done", tmp_path / "done")
    steps: list[int] = []
    again = training.train(recipe, tmp_path / "done", after=lambda p: steps.append(p.step))
    assert steps == []
    assert far(answers(again.model, inputs), inputs["answers"]) <= SAME


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_goes_on_from_where_it_stopped(name: str, tmp_path: Path) -> None:
    inputs, output = load_file(GOLDEN / "lab" / name / "expected.safetensors"), says(f"lab/{name}/expected.json")
    recipe = zoo.trained(str(GOLDEN / "lab" / name / "done"))[1]

    def gone_on(folder: Path) -> tuple[list[int], Tensor]:
        steps: list[int] = []
        made = training.train(recipe, folder, every=1, after=lambda p: steps.append(p.step))
        return steps, answers(made.model, inputs)

    shutil.copytree(GOLDEN / "lab" / name / "stopped", tmp_path / "same")
    steps, result = gone_on(tmp_path / "same")
    assert steps == list(range(output["stopped"] + 1, recipe.steps + 1))
    assert far(result, inputs["answers"]) <= 1e-4  # of float32 training, also on another processor
    metrics = (tmp_path / "same" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in metrics] == list(range(1, recipe.steps + 1))
    # What it goes on from matters, and so does the recipe.
    shutil.copytree(GOLDEN / "lab" / name / "stopped", tmp_path / "changed")
    halved(tmp_path / "changed" / "checkpoint.safetensors")
    assert far(gone_on(tmp_path / "changed")[1], inputs["answers"]) > 1e-3
    shutil.copytree(GOLDEN / "lab" / name / "stopped", tmp_path / "other")
    with pytest.raises(iw.InputError, match="another recipe"):
        training.train(training.changed(recipe, ["seed=7"]), tmp_path / "other")


def halved(path: Path) -> None:
    """Halves all weights in a checkpoint."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    save_file({n: t / 2 if t.is_floating_point() else t for n, t in load_file(path).items()}, path, metadata)


def test_a_sweep_finds_the_cells_that_are_done(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "sweep" / "out", tmp_path / "out")
    recipe = zoo.trained(str(GOLDEN / "lab" / "lsa" / "done"))[1]
    cells = sweeps.cells(recipe, ["seed=0,1"])
    counts: list[int] = []

    def counted(done: int) -> None:
        counts.append(done)
        if done < len(cells):
            raise SeenError

    result = sweeps.sweep(cells, tmp_path / "out", prompts=PROMPTS, after=counted)
    assert counts == [2]
    want = says("sweep/expected.json")
    assert [{"loss": r.loss, "curve": list(r.curve), "status": r.status} for r in result] == want
    with pytest.raises(SeenError):  # on other prompts nothing was measured
        sweeps.sweep(cells, tmp_path / "out", prompts=PROMPTS + 1, after=counted)
    assert counts == [2, 0]


def test_results_of_the_ledger_are_read(tmp_path: Path) -> None:
    path, output = GOLDEN / "ledger" / "results.jsonl", says("ledger/expected.json")
    result = read_entries(path, "write it again")
    lines = {(line := json.loads(text))["id"]: line for text in path.read_text().splitlines()}
    assert list(result) == list(lines) == [entry["id"] for entry in output["entries"]]
    for entry, want in zip(result.values(), output["entries"], strict=True):
        values = {name: q.value.value for name, q in entry.quantities.items()}
        assert {"id": entry.id, "verdict": str(entry.verdict), "trials": entry.trials, "values": values} == want
        # How code is hashed is no part of the format: a record of other code is stale, but it is read.
        stored = {k: v for k, v in lines[entry.id].items() if k not in ("source", "rooms", "program", "changes")}
        stored["quantities"] = {name: q | {"rival": None} for name, q in stored["quantities"].items()}  # newer than it
        assert json.loads(entry.line()).items() >= stored.items()
        assert Entry.of(entry.line()) == entry
    assert result["made-up"].told == [{"slope": -math.inf}]
    assert result["made-up"].plots[0]["lines"] == {"model": [0.5, math.inf]}
    (tmp_path / "results.jsonl").write_text(path.read_text().replace('"trials": ', '"trials": "many", "of": '))
    with pytest.raises(iw.InputError, match=r"Line 1 of .* is damaged, .*: write it again"):
        read_entries(tmp_path / "results.jsonl", "write it again")


def test_the_result_of_a_trial_is_read(tmp_path: Path) -> None:
    output = says("ledger/expected.json")["trial"]
    kept = read_trial(GOLDEN / "ledger" / "trial.json")
    assert kept is not None
    assert summary(kept) == output
    text = (GOLDEN / "ledger" / "trial.json").read_text()
    assert text.count("found") == 1
    (tmp_path / "trial.json").write_text(text.replace("found", "fonud"))
    assert read_trial(tmp_path / "trial.json") is None
