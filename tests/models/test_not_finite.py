"""No division by zero, no overflow: what cannot be solved is named, and nothing slower is tried in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inweights import InputError
from inweights.models import Prompt, _generate, _solve, _trace, generate, patch, trace, verify
from inweights.models._load import as_model
from inweights.models._tiny import probe, tiny
from inweights.running import _stepping

NO_MEMORY = "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"


def prompt_of(net: Any, asked: int = 1) -> Prompt:
    ids = probe()[0]
    return Prompt(as_model(net), ids[:-asked], ids[-asked:])


def changed(name: str, dtype: torch.dtype = torch.float64, **factors: float) -> Any:
    """A tiny Llama with some parameters of its second block multiplied."""
    net: Any = tiny(name)
    with torch.no_grad():
        for path, factor in factors.items():
            net.get_parameter(f"model.layers.1.{path.replace('__', '.')}.weight").mul_(factor)
    return net.to(dtype)


@pytest.mark.parametrize("mode", ["token", "output"])
def test_an_inner_activation_of_zero_is_refused(mode: str) -> None:
    """With an up-projection of zeros the last matrix has nothing to act on; without, the same prompt is proved."""
    words = r"model\.layers\.1 cannot be patched: `a` = A\(C∖Y, x\) is zero"
    with pytest.raises(InputError, match=words):
        patch(prompt_of(changed("llama", mlp__up_proj=0.0)), mode)
    prompt = prompt_of(changed("llama"))
    assert verify(prompt, patch(prompt, mode)).verdict == "PASS"


def test_an_input_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"model\.layers\.1 cannot be patched: `a` = A\(C∖Y, x\) is zero"):
        patch(prompt_of(changed("llama", post_attention_layernorm=0.0)))


def test_the_trace_refuses_an_input_of_zero() -> None:
    with pytest.raises(InputError, match="is zero, so no weight update can act on it"):
        trace(prompt_of(changed("llama", post_attention_layernorm=0.0)))


def test_generation_refuses_an_input_of_zero() -> None:
    with pytest.raises(InputError, match="is zero"):
        generate(prompt_of(changed("llama", post_attention_layernorm=0.0)), 2)


@pytest.mark.parametrize("size", [1e-170, 1e-30, 1e160])
def test_squares_that_leave_the_range_do_no_harm(size: float) -> None:
    """float64: `‖z‖²` of such an input is 0 or infinite, the update is not; 1e-9."""
    prompt = prompt_of(changed("llama", post_attention_layernorm=size, mlp__gate_proj=1 / size, mlp__up_proj=1 / size))
    made = patch(prompt)
    assert verify(prompt, made).max_abs_logit_error <= 1e-9
    assert all(bool(t.isfinite().all()) for b in made.blocks for t in (*(b.read.factors if b.read else ()),))
    assert bool(trace(prompt).totals.isfinite().all())


def test_float16_that_overflows_is_refused() -> None:
    """Activations of 1e-7 need a carrier of 1e7, which float16 does not have."""
    net = changed("llama", torch.float16, post_attention_layernorm=1e-6)
    with pytest.raises(InputError, match=r"NaN or infinite entries|is zero"):
        patch(prompt_of(net))


def test_an_infinite_activation_is_refused_by_name() -> None:
    net = changed("llama", torch.float16)
    with torch.no_grad():
        net.model.layers[1].mlp.down_proj.weight.fill_(6e4)
        net.model.layers[1].mlp.up_proj.weight.fill_(6e4)
    with pytest.raises(InputError, match=r"model\.layers\.1 cannot be patched: `goal` has NaN or infinite entries"):
        patch(prompt_of(net))


def test_equations_beyond_the_range_of_float16_are_solved_and_not_zeroed() -> None:
    """Rows whose norm float16 does not have: the solution reproduces its targets, 1e-2."""
    generator = torch.Generator().manual_seed(0)
    Z = (9000 * torch.randn(3, 64, generator=generator)).half()
    T = torch.randn(3, 5, generator=generator).half()
    solution = _solve._least_squares(Z, T)
    assert int(solution.rank) == 3
    torch.testing.assert_close(Z.float() @ solution.update.dense().float().mT, T.float(), rtol=0.05, atol=0.05)
    with pytest.raises(InputError, match="`Z` has NaN or infinite entries"):
        _solve._least_squares(Z * 100, T)


def test_a_closed_gate_is_named() -> None:
    with pytest.raises(InputError, match=r"zero in 1 of 3 coordinates \(a closed gate\)"):
        _solve._through(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1.0, 2.0, 0.0]]))


def test_one_change_behind_a_convolution_is_refused() -> None:
    with pytest.raises(InputError, match="do not reach each query token by themselves"):
        patch(prompt_of(tiny("inkling_text"), asked=3), "static")


def test_generation_falls_back_where_rows_that_see_nothing_become_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second row of a batch of two is NaN in some models: all is then computed anew, with the same tokens."""
    net = changed("llama")
    prompt = prompt_of(net, asked=2)
    right = generate(prompt, 2)
    layer, forward = net.model.layers[0], net.model.layers[0].forward

    def broken(x: Any, *args: Any, **kwargs: Any) -> Any:
        out = forward(x, *args, **kwargs)
        if len(out) == 2:
            out = out.clone()
            out[1] = float("nan")
        return out

    monkeypatch.setattr(layer, "forward", broken)
    assert generate(prompt, 2).patched == right.prompted


def test_a_proof_of_logits_that_are_not_finite_is_refused() -> None:
    prompt = prompt_of(changed("llama"))
    made = patch(prompt)
    net: Any = prompt.model.model
    with torch.no_grad():
        net.lm_head.weight[0, 0] = float("inf")
    with pytest.raises(InputError, match="`prompted`, `bare`, `patched` have NaN or infinite entries"):
        verify(prompt, made)


def test_the_self_check_of_a_trace_rejects_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed updates that are NaN are not taken; those of separate runs are."""
    prompt = prompt_of(changed("llama"))
    plain = trace(prompt)
    assert plain.how == "packed"
    packed = _trace.packed

    def broken(*args: Any) -> Any:
        factors = packed(*args)
        return {kind: [(u * float("nan"), v) for u, v in pairs] for kind, pairs in factors.items()}

    monkeypatch.setattr(_trace, "packed", broken)
    result = trace(prompt)
    assert "does not see just what the mask allows" in result.how
    torch.testing.assert_close(result.norms, plain.norms, rtol=1e-6, atol=1e-9)


def _no_memory(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(NO_MEMORY)


def test_a_trace_without_memory_does_not_turn_to_a_slower_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trace, "packed", _no_memory)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trace(prompt_of(changed("llama")))


def test_generation_without_memory_does_not_turn_to_a_slower_way(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = prompt_of(changed("llama"))
    steps = [0]
    step = _generate.step

    def last_one_fails(*args: Any) -> Any:
        steps[0] += 1
        return step(*args)

    monkeypatch.setattr(_generate, "step", last_one_fails)
    monkeypatch.setattr(_generate, "joined", _no_memory)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        generate(prompt, 2)
    assert steps[0] > 0  # prompted and bare streams had run


def test_steps_without_memory_are_not_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    net = changed("llama")
    monkeypatch.setattr(_stepping, "step", _no_memory)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        _stepping.steppable(net, probe())
    monkeypatch.setattr(_stepping, "step", lambda *args: (_ for _ in ()).throw(RuntimeError("no such cache")))
    assert _stepping.steppable(net, probe()) == "no such cache"


def test_logits_of_the_context_are_never_computed() -> None:
    """Of 20 tokens the head sees the last one or those of the query, in patches, proofs, traces and generation."""
    net = changed("llama")
    rows: list[int] = []
    net.lm_head.register_forward_pre_hook(lambda _, args: rows.append(args[0].shape[-2]))
    prompt = prompt_of(net, asked=3)
    assert prompt.model.anatomy.supported  # it runs short texts of its own, and looks at all their logits
    _stepping.steppable(net, probe())
    rows.clear()
    for mode in ("token", "static"):
        verify(prompt, patch(prompt, mode))
    trace(prompt)
    generate(prompt, 2)
    assert rows
    assert max(rows) <= 3
