"""Writes the golden files: small files of every format of this package, and what they gave when they were written.

Those that are here were written by version 0.1.0. Only run this to add files, never to replace existing ones: a later
version has to read what an earlier one wrote, and `test_golden.py` says whether it does. A part that is already here is
refused. From the folder `tests`, with the names of the parts to write:

    python -m golden.write llama gemma3 patches fold lab sweep ledger

`llama` and `gemma3` are models of random weights; their values are in the files, so that no test depends on how random
numbers are drawn.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import inweights as iw
from inweights.folding import make
from inweights.lab import Draw, training
from inweights.lab import sweep as sweeps
from inweights.ledger import Plot, Trial, Verdict, run_claims
from inweights.ledger._run import Job, do
from inweights.papers import load_all
from test_golden import BASES, GOLDEN, MODES, PROMPTS, about, answers, asked, logits, summary

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZES: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "pad_token_id": None,
}  # fmt: skip
RECIPES = {
    "decoder": ("linear-5", "model.layers=1", "model.width=8", "model.heads=2", "batch=8", "points=6", "steps=20"),
    "lsa": ("lsa-1", "batch=8", "points=6", "steps=20", "average=5", "task.dims=3", "rate=0.1"),
}
STOPPED = 12


def main(parts: list[str]) -> None:
    """Writes the parts that are named, each into a folder of its own that must not be there yet."""
    torch.set_num_threads(1)
    os.chdir(GOLDEN)  # so that names of models are no paths of one machine
    for part in parts:
        if Path(part).exists():
            raise SystemExit(f"{part} is already here: golden files are never replaced.")
    for part in parts:
        Path(part).mkdir()
        PARTS[part](Path(part))


def tokenizer() -> Any:
    """Every byte a token, and turns."""
    vocabulary = ["<|im_end|>", "<|im_start|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    raw = Tokenizer(models.BPE({c: i for i, c in enumerate(vocabulary)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<|im_start|>", eos_token="<|im_end|>", chat_template=TEMPLATE
    )
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    return made


def base(config: Any, folder: Path, seed: int) -> None:
    """A model with random weights, norms included, in float32."""
    generator = torch.Generator().manual_seed(seed)
    net: Any = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for p in net.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(noise / p.shape[-1] ** 0.5 if p.ndim > 1 else p + 0.2 * noise)
    net.save_pretrained(folder)


def llama(folder: Path) -> None:
    """A model with a chat template."""
    more: dict[str, Any] = {"vocab_size": 258, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 0}
    base(transformers.LlamaConfig(**SIZES, **more), folder, 0)
    tokenizer().save_pretrained(folder)


def gemma3(folder: Path) -> None:
    """A model with norms on its branches, and without a tokenizer."""
    more: dict[str, Any] = {
        "vocab_size": 40, "max_position_embeddings": 64, "sliding_window": 16, "bos_token_id": 1, "eos_token_id": 0,
        "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 4,
    }  # fmt: skip
    base(transformers.Gemma3TextConfig(**SIZES, **more), folder, 1)


def patches(folder: Path) -> None:
    """Patches of each model in each mode, the logits with and without them, and their descriptions."""
    expected: dict[str, torch.Tensor] = {}
    output = {}
    for name in BASES:
        model = iw.load(name, dtype="float64", device="cpu")
        prompt = asked(model)
        expected |= {f"{name}-ids": prompt.ids, f"{name}-bare": logits(model, prompt)}
        for mode in MODES:
            patch = iw.patch(prompt, mode)
            assert iw.verify(prompt, patch).verdict == "PASS"
            assert not patch.warnings
            path = patch.save(folder / f"{name}-{mode}.safetensors")
            expected[f"{name}-{mode}"] = logits(model, prompt, iw.Patch.load(path, model))
            output[f"{name}-{mode}"] = about(patch)
    save_file(expected, folder / "expected.safetensors")
    write_json(folder / "expected.json", output)


def fold(folder: Path) -> None:
    """An adapter for all queries, with what was measured on its card, for PEFT and for llama.cpp."""
    model = iw.load("llama", dtype="float64", device="cpu")
    queries = [f"{word} {i}?" for i in range(4) for word in ("Who", "Where", "Why", "When")]
    made = make(
        model, "Be brief.", calibration=queries, method="match", rank=2, new=6, held_out=3, embed_prompt=True
    ).fold
    made.save_pretrained(folder / "adapter")
    again = iw.load_fold(folder / "adapter", model)
    again.to_gguf(folder / "adapter.gguf")
    with again.applied(model):
        save_file({"folded": logits(model, asked(model))}, folder / "expected.safetensors")


def lab(folder: Path) -> None:
    """Trainings with either optimiser: one that was stopped, and one that was finished; and the predictions of the
    models."""
    for name, (recipe_name, *settings) in RECIPES.items():
        recipe = training.changed(training.read(recipe_name), list(settings))
        steps: list[int] = []

        def stop(steps: list[int] = steps) -> bool:
            steps.append(len(steps) + 1)
            return len(steps) == STOPPED

        try:
            training.train(recipe, folder / name / "stopped", stop=stop)
        except training.StoppedError:
            done = training.train(recipe, folder / name / "done")
        sample = recipe.make_task().sample(Draw(99, torch.zeros((), dtype=torch.int64), 3), recipe.points)
        inputs = {"xs": sample.xs.double(), "ys": sample.ys.double()}
        result = answers(training.load_trained(done.path)[0], inputs)
        save_file({**inputs, "answers": result}, folder / name / "expected.safetensors")
        output = {"loss": done.loss, "device": "cpu", "stopped": STOPPED, "recipe": recipe.model_dump(mode="json")}
        write_json(folder / name / "expected.json", output)


def sweep(folder: Path) -> None:
    """The results of two cells; the files of their trainings are left out."""
    cells = sweeps.cells(training.load_trained(Path("lab/lsa/done/model.safetensors"))[1], ["seed=0,1"])
    results = sweeps.sweep(cells, folder / "out", prompts=PROMPTS, jobs=1)
    for path in (folder / "out").rglob("*"):
        if path.is_file() and path.name != "result.json":
            path.unlink()
    write_json(
        folder / "expected.json", [{"loss": r.loss, "curve": list(r.curve), "status": r.status} for r in results]
    )


def ledger(folder: Path) -> None:
    """Two results of quick runs, one made of them with a plot and infinite numbers, and the result of one trial."""
    claims = [load_all()[id] for id in ("dherin-theorem", "dherin-corollary")]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["INWEIGHTS_CACHE"] = cache
        entries = list(run_claims(claims, quick=True))
        kept = do(Job(claims[0].id, Trial(0)), Path(cache) / "apart")
        (trial,) = (Path(cache) / "apart").iterdir()
        shutil.copy(trial, folder / "trial.json")
    plot = asdict(Plot("A plot", "steps", "error", [1.0, 2.0], {"model": [0.5, math.inf]}))
    more: dict[str, Any] = {"plots": [plot], "told": [{"slope": -math.inf}], "why": "the interval straddles the bound"}
    entries.append(replace(entries[0], id="made-up", verdict=Verdict.INCONCLUSIVE, **more))
    (folder / "results.jsonl").write_text("".join(entry.line() + "\n" for entry in entries))
    reported = [
        {
            "id": e.id,
            "verdict": str(e.verdict),
            "trials": e.trials,
            "values": {name: q.value.value for name, q in e.quantities.items()},
        }
        for e in entries
    ]
    write_json(folder / "expected.json", {"entries": reported, "trial": summary(kept)})


def write_json(path: Path, values: Any) -> None:
    """Writes plain values as readable JSON."""
    path.write_text(json.dumps(values, indent=1) + "\n")


PARTS: dict[str, Callable[[Path], None]] = {
    "llama": llama, "gemma3": gemma3, "patches": patches, "fold": fold, "lab": lab, "sweep": sweep, "ledger": ledger,
}  # fmt: skip

if __name__ == "__main__":
    main(sys.argv[1:])
