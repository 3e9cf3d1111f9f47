"""A step over a cache of fixed size is a step over one that grows."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from talking import talker
from torch import Tensor

from inweights.models import Model
from inweights.running import _advance, _grouped, sample
from inweights.running._advance import Fixed, Growing

TEXTS = [(3, 4), (60, 61, 62, 63), (100,), (7, 8, 9)]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def read(model: Model) -> tuple[Growing, Tensor]:
    """Texts of different lengths, padded on the left and read, and their next tokens."""
    width = max(map(len, TEXTS))
    ids = torch.tensor([[0] * (width - len(t)) + list(t) for t in TEXTS], device=model.device)
    mask = torch.tensor([[0] * (width - len(t)) + [1] * len(t) for t in TEXTS], device=model.device)
    state = Growing(model.model, None, mask, (mask.cumsum(1) - 1).clamp_min(0))
    return state, state.read(ids).argmax(-1, keepdim=True)


def twin(state: Growing) -> Growing:
    other = Growing(state.net, copy.copy(state.cache), state.mask, state.positions)
    other.cache.layers = [copy.copy(layer) for layer in state.cache.layers]
    return other


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_fixed_cache_gives_the_logits_of_a_growing_one(family: str) -> None:
    """float64, six steps, rows dropped after three: largest difference 1e-12; a text that sees one place more: not."""
    with torch.inference_mode():
        state, ids = read(talker(family, torch.float64))
        fixed, wrong = Fixed(twin(state), 7, graph=False), Fixed(twin(state), 7, graph=False)
        wrong.mask[2, ..., 0] = 0.0  # padding
        for step in range(6):
            expected, ours, other = (s.read(ids) for s in (state, fixed, wrong))
            assert (ours - expected).abs().max() < 1e-12
            assert (other[2 if step < 3 else 1] - expected[2 if step < 3 else 1]).abs().max() > 1e-3
            ids = expected.argmax(-1, keepdim=True)
            if step == 2:
                rows = torch.tensor([1, 2])
                for s in (state, fixed, wrong):
                    s.keep(rows)
                ids = ids[rows]


def test_a_fixed_cache_leaves_the_growing_one_as_it_was() -> None:
    with torch.inference_mode():
        state, ids = read(talker(dtype=torch.float64))
        before = [layer.keys.clone() for layer in state.cache.layers]
        Fixed(state, 4, graph=False).read(ids)
        assert all(torch.equal(layer.keys, b) for layer, b in zip(state.cache.layers, before, strict=True))


def test_heads_that_share_keys_attend_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token of each text is attended to without copies of the keys; the model's settings are as before."""
    seen: list[int] = []
    own = _grouped.sdpa_attention_forward

    def watched(module: Any, query: Tensor, key: Tensor, *args: Any, **options: Any) -> Any:
        seen.append(query.shape[1] - key.shape[1])
        return own(module, query, key, *args, **options)

    monkeypatch.setattr(_grouped, "sdpa_attention_forward", watched)
    with torch.inference_mode():
        model = talker(dtype=torch.float64)
        assert model.model.config.num_key_value_heads < model.model.config.num_attention_heads
        state, ids = read(model)
        assert not seen
        Fixed(state, 4, graph=False).read(ids)
    assert seen
    assert not any(seen)
    assert model.model.config._attn_implementation == "sdpa"


def refused(*_: object) -> None:
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


def test_a_graph_that_cannot_be_captured_again_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps go on one by one, with a warning, and their logits are those of the growing cache."""
    monkeypatch.setattr(Fixed, "_captured", refused)
    with torch.inference_mode():
        state, ids = read(talker(dtype=torch.float64))
        fixed = Fixed(twin(state), 4, graph=False)
        stale: Any = object()  # a graph that must not be replayed any more
        fixed.graph, rows = stale, torch.tensor([1, 2])
        state.keep(rows)
        with pytest.warns(RuntimeWarning, match=r"No CUDA graph of the generation \(operation not permitted"):
            fixed.keep(rows)
        assert fixed.graph is None
        assert (fixed.read(ids[rows]) - state.read(ids[rows])).abs().max() < 1e-12


def test_a_model_whose_step_cannot_be_captured_keeps_the_growing_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fixed, "_captured", refused)
    with torch.inference_mode():
        state, ids = read(talker(dtype=torch.float64))
        expected = twin(state).read(ids)
        with pytest.warns(RuntimeWarning, match="No CUDA graph"):
            assert not _advance._agree(state)
        assert torch.equal(state.read(ids), expected)


def test_a_batch_too_large_for_two_caches_keeps_the_growing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model, on_gpu = talker(), SimpleNamespace(device=SimpleNamespace(type="cuda"))
    grown: Any = SimpleNamespace(net=model.model, cache=SimpleNamespace(layers=[]), mask=on_gpu)
    monkeypatch.setattr(_advance, "Fixed", lambda *_, graph: refused() if graph else None)
    monkeypatch.setitem(_advance._FIXABLE, model.model, True)
    with pytest.warns(RuntimeWarning, match="No CUDA graph"):
        assert _advance.fixed(grown, 100) is None


def test_a_cpu_and_a_windowed_model_keep_the_growing_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.inference_mode():
        state, _ = read(talker())
        assert _advance.fixed(state, 100) is None


@GPU
@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_captured_steps_generate_the_same_tokens(
    family: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = talker(family, torch.float64)
    model.model.to("cuda")
    made: list[Any] = []
    own = _advance.fixed

    def fixed(*args: Any) -> Fixed | None:
        made.append(own(*args))
        return None if missing else made[-1]

    monkeypatch.setattr("inweights.running._sample.fixed", fixed)

    def run() -> list[tuple[int, ...]]:
        return sample(
            model.model, (5, 9), TEXTS * 40, new=24, temperature=temperature, seed=0, ends=lambda t: t % 50 == 0
        )

    missing = False
    captured = run()
    assert any(isinstance(m, Fixed) for m in made)
    missing = True
    assert run() == captured
