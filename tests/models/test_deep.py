"""Deep models with the parameters of trained checkpoints: what they are, and the proof on them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from inweights import InputError
from inweights.models import Patch, Prompt, _run, anatomy, patch, verify
from inweights.models._block_patch import BlockPatch, Goal
from inweights.models._families import Outcome, errors_of, prove
from inweights.models._load import as_model
from inweights.models._realistic import DEPTH, MASSIVE, SCALES, deep, draw, stream_norms
from inweights.models._solve import solve_token
from inweights.models._tiny import probe, tiny
from inweights.running._hidden import hidden, with_hidden
from inweights.running._rerun import Rerun, put


def wide_gemma(seed: int) -> Any:
    """18 blocks of width 256 in which no coordinate of the branch is zero: the naive inversion reaches all of them."""
    config = Gemma3TextConfig(
        vocab_size=99, hidden_size=256, num_hidden_layers=18, intermediate_size=512, num_attention_heads=4,
        num_key_value_heads=1, head_dim=32, sliding_window=16, pad_token_id=0,
    )  # fmt: skip
    net: Any = Gemma3ForCausalLM._from_config(config, attn_implementation="eager").double().eval()
    draw(net, seed)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in net.model.layers:
            W = layer.mlp.down_proj.weight
            noise = torch.randn(W.shape, generator=generator, dtype=W.dtype) / W.shape[-1] ** 0.5
            W.copy_(torch.where((W == 0).all(-1, keepdim=True), noise, W))
    return as_model(net)


@pytest.fixture(scope="module")
def gemmas() -> list[Any]:
    return [wide_gemma(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def gemma(gemmas: list[Any]) -> Any:
    return gemmas[-1]


def last_token(model: Any) -> Prompt:
    ids = probe()[0]
    return Prompt(model, ids[:-1], ids[-1:])


def test_parameters_are_those_of_trained_checkpoints() -> None:
    """Range of norm scales with zeros and negative values, dead rows and units, tied embeddings, a massive token."""
    model: Any = deep("gpt2")
    scales = torch.cat(
        [p.detach() for name, p in model.named_parameters() if "ln_" in name and name.endswith("weight")]
    )
    sizes = scales.abs()
    assert float(sizes.max()) == SCALES[1]
    assert float(sizes[sizes > 0].min()) == SCALES[0]
    assert bool((scales == 0).any())
    assert bool((scales < 0).any())
    assert len(model.transformer.h) >= DEPTH
    assert model.lm_head.weight is model.transformer.wte.weight
    assert float(model.transformer.wte.weight.detach()[int(probe()[0, 0])].abs().max()) == MASSIVE
    rows = [p for p in model.parameters() if p.ndim == 2 and p is not model.lm_head.weight]
    assert any(bool((p == 0).all(-1).any()) for p in rows)
    assert any(bool((block.mlp.c_fc.bias.detach() < -5).any()) for block in model.transformer.h)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama", set()),
        ("gemma3_text", set()),  # branch norms: the stream leads around them
        ("bloom", set()),  # a norm behind the embedding, but not in each block
        ("bert", {"bert.encoder.layer.#.attention.output.LayerNorm", "bert.encoder.layer.#.output.LayerNorm"}),
    ],
)
def test_norms_on_the_stream_are_seen_from_outside(name: str, expected: set[str]) -> None:
    assert stream_norms(name) == expected
    if expected:
        scales = [m.weight for k, m in deep(name).named_modules() if re.sub(r"\d+", "#", k) in expected]
        assert max(float(w.detach().abs().max()) for w in scales) == pytest.approx(SCALES[1] ** 0.2)


def test_the_same_seed_gives_the_same_model_and_another_one_another() -> None:
    first, again, other = (deep("llama", seed).model.layers[3].mlp.up_proj.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ["llama", "mixtral", "bert", "mamba", "gemma3_text", "olmo2", "qwen3_next"])
def test_both_modes_are_exact_on_deep_models(name: str) -> None:
    """float64, 1e-8 of the largest logit; the control is off by a hundredth of it."""
    result = prove(name, seeds=1, depth="deep")
    assert result.status == "exact", result
    assert result.blocks >= DEPTH
    assert result.token_largest is not None
    assert result.control is not None
    assert result.control > 0.01
    assert result.float32_token_error is not None


def test_ideal_streams_instead_of_actual_outputs_fail(gemmas: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of self-correction: each block is handed what the one before it *should* have put out.

    With the naive inversion of the norm, rounding then grows from block to block; the same inversion on actual outputs
    is exact. As in the table of families, the worst of three seeds decides.
    """

    def ideal(rerun: Rerun, goal: Goal, **how: Any) -> tuple[BlockPatch, Any]:
        made, out = solve_token(rerun, goal, **how)
        return made, with_hidden(out, put(hidden(out), rerun.rows, goal.output))

    errors: dict[str, list[float]] = {"actual": [], "ideal": []}
    for prompt in map(last_token, gemmas):
        for way, solver in (("actual", solve_token), ("ideal", ideal)):
            monkeypatch.setattr(_run, "solve_token", solver)
            errors[way].append(verify(prompt, patch(prompt, inversion="naive")).max_abs_logit_error)
    assert max(errors["actual"]) <= 1e-9
    assert max(errors["ideal"]) > 1e-6
    assert all(i > 100 * a for a, i in zip(errors["actual"], errors["ideal"], strict=True))


def test_the_best_inversion_amplifies_less_than_the_naive_one(gemma: Any) -> None:
    prompt = last_token(gemma)
    gains = {}
    for way in ("naive", "best"):
        gains[way] = torch.tensor([b.amplification or 0.0 for b in patch(prompt, inversion=way).blocks])
    assert float(gains["naive"].log().sum()) > float(gains["best"].log().sum()) + 5


def test_a_report_has_the_amplification_of_every_block_and_warns(gemma: Any) -> None:
    naive = patch(last_token(gemma), inversion="naive")
    assert [b["inversion"] for b in naive.report()] == ["naive"] * 18
    assert all(b["amplification"] > 0 for b in naive.report())
    assert naive.warnings == []
    loud = Patch("token", tuple(replace(b, amplification=100.0) for b in naive.blocks), 1, naive.base)
    (warning,) = loud.warnings
    assert "amplify rounding errors" in warning
    assert "model.layers.0" in warning


def test_amplification_is_that_of_a_known_block() -> None:
    """A block that adds nothing passes errors on as they are: 1, to 1e-6."""
    net: Any = tiny("llama")
    with torch.no_grad():
        for layer in net.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.mul_(1e-12)
    made = patch(last_token(as_model(net)))
    assert [b.amplification for b in made.blocks] == pytest.approx([1.0] * len(made.blocks), abs=1e-6)


def test_each_inversion_can_be_asked_for(gemma: Any) -> None:
    prompt = last_token(gemma)
    for way in ("naive", "balanced"):
        assert {b.inversion for b in patch(prompt, inversion=way).blocks} == {way}
    with pytest.raises(ValueError, match=r"cannot be patched: `n` is zero in \d of 32 coordinates"):
        patch(last_token(as_model(deep("gemma3_text"))), inversion="naive")  # rows of zeros: what it cannot reach
    with pytest.raises(ValueError, match="`inversion` is 'other', but must be one of best, naive, stable, balanced"):
        patch(prompt, inversion="other")  # type: ignore[call-overload]


def test_a_norm_without_parameters_cannot_be_inverted() -> None:
    model = tiny("gemma3_text")
    structure = anatomy(model)
    bare = replace(structure, blocks=tuple(replace(b, scale="", shift="") for b in structure.blocks))
    with pytest.raises(InputError, match="has neither a scale nor a bias that could be changed"):
        errors_of(model, bare, "token", 1)


def test_a_gate_that_happens_to_be_open_is_still_a_gate() -> None:
    """qwen3_next's shared expert behind a saturated sigmoid: not a matrix that adds as it is."""
    assert not any(b.unit for b in anatomy(deep("qwen3_next")).blocks)


def test_small_tokens_are_not_dependent_ones() -> None:
    """Static mode with query tokens whose activations differ by orders of magnitude."""
    model = deep("llama")
    outcome: Outcome = errors_of(model, anatomy(model), "static", 8)
    assert outcome.exact("deep")
    assert not replace(outcome, error=1e-3 * outcome.largest).exact("deep")
    assert not replace(outcome, control=0.0).exact("deep")


def test_a_slice_of_a_patch_has_memory_of_its_own(gemma: Any) -> None:
    ids: Tensor = probe()[0]
    made = patch(Prompt(gemma, ids[:-3], ids[-3:]))
    for b in made.blocks:
        part = b.at(1)
        for update in part.added.values():
            assert update.u.untyped_storage().nbytes() == update.u.nbytes
