"""A fold in llama.cpp, beside the original quantised SmolLM2: it changes the next token as it does in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from inweights._fetch import fetch
from inweights.folding._card import Card
from inweights.folding._fold import Fold, matrices
from inweights.models import Model, load
from inweights.models._load import SMOLLM2
from inweights.theory import Update

xllamacpp = pytest.importorskip("xllamacpp")

TEXTS = ("The capital of France is the city of", "My name is Bob and I live in", "Once upon a time there was a")
ROWS = ("self_attn.q_proj", "self_attn.k_proj")


@pytest.fixture(scope="module")
def smollm2() -> Model:
    return load("smollm2")


def fold(of: Model, parts: tuple[str, ...], size: float) -> Fold:
    """Random updates of rank 4 of all matrices with such names, `size` times as large as the matrices."""
    generator = torch.Generator().manual_seed(0)
    updates = {}
    for name, (out, into) in matrices(of).items():
        if name.endswith(parts):
            made = Update(torch.randn(out, 4, generator=generator), torch.randn(into, 4, generator=generator))
            whole = of.model.get_parameter(f"{name}.weight").detach()
            updates[f"{name}.weight"] = made * float(size * whole.norm() / made.frobenius())
    return Fold(updates, Card(base="smollm2", base_fingerprint=of.fingerprint))


def tokens(of: Model) -> list[list[int]]:
    return [of.tokenizer(text)["input_ids"] for text in TEXTS]


def here(of: Model) -> list[torch.Tensor]:
    """The log-probabilities of the next token in transformers, after each text."""
    net: Any = of.model
    with torch.no_grad():
        return [net(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1) for ids in tokens(of)]


def there(of: Model, adapter: Path | None = None) -> list[dict[int, float]]:
    """Those of the 20 likeliest next tokens in llama.cpp, on the GGUF as it was fetched."""
    asked = xllamacpp.CommonParams()
    asked.model.path = str(fetch(SMOLLM2))
    asked.n_ctx, asked.n_parallel, asked.warmup, asked.verbosity = 128, 1, False, -1
    asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = 1
    if adapter is not None:
        asked.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    server = xllamacpp.Server(asked)
    result = []
    for ids in tokens(of):
        output = server.handle_completions({"prompt": ids, "n_predict": 1, "n_probs": 20, "temperature": 0})
        likely = output["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        result.append({t["id"]: t["logprob"] for t in likely})
    return result


def apart(these: list[dict[int, float]], those: list[torch.Tensor]) -> float:
    """The mean difference of log-probabilities."""
    gaps = [abs(p - float(q[i])) for known, q in zip(these, those, strict=True) for i, p in known.items()]
    return sum(gaps) / len(gaps)


@pytest.mark.parametrize(
    ("parts", "size"),
    [(("gate_proj", "up_proj", "down_proj"), 0.1), (("v_proj", "o_proj"), 0.2), (ROWS, 0.5), (("proj",), 0.15)],
    ids=["mlp", "values", "queries and keys", "all"],
)
def test_llama_cpp_does_with_the_adapter_what_transformers_does(
    parts: tuple[str, ...], size: float, smollm2: Model, tmp_path: Path
) -> None:
    """llama.cpp rounds activations to 8 bits: both differ by 0.07 without an adapter, 0.11 with one."""
    made = fold(smollm2, parts, size)
    bare = here(smollm2)
    with made.applied(smollm2):
        want = here(smollm2)
    got = there(smollm2, made.to_gguf(tmp_path / "a.gguf", smollm2))
    assert [p.name for p in tmp_path.iterdir()] == ["a.gguf"]
    assert apart(got, want) < 0.2
    assert apart(got, bare) > 1


def test_without_an_adapter_both_programs_agree(smollm2: Model) -> None:
    assert apart(there(smollm2), here(smollm2)) < 0.2


def test_rows_in_the_order_of_transformers_would_be_something_else(
    smollm2: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the reordering: such a file loads and runs, and is wrong."""
    made = fold(smollm2, ROWS, 0.5)
    with made.applied(smollm2):
        want = here(smollm2)
    monkeypatch.setattr("inweights.models._gguf.as_llama_cpp", lambda factors, model: factors)
    wrong = made.to_gguf(tmp_path / "a.gguf", smollm2)
    assert apart(there(smollm2, wrong), want) > 1
