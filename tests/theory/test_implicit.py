"""The theorem on plain tensors: exact, of rank 1, of least norm, with errors where it does not apply."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from inweights import InputError, Update, family, implicit_update, rank_one
from inweights.theory import (
    blind_to,
    pseudoinverse,
    quotient,
    residual_bias,
    residual_matrix,
    residual_scale,
    scalar_update,
)

F64 = torch.float64


def case(out: int = 7, width: int = 5, batch: tuple[int, ...] = (), seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    W = torch.randn(out, width, generator=g, dtype=F64)
    a, delta = (torch.randn(*batch, width, generator=g, dtype=F64) for _ in range(2))
    return W, a, delta


def miss(update: Update, W: Tensor, a: Tensor, delta: Tensor) -> float:
    """How far `(W + ΔW) a` is from `W (a + ΔA)`."""
    changed = (update.added_to(W) @ a.unsqueeze(-1)).squeeze(-1)
    return (changed - (a + delta) @ W.mT).abs().max().item()


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([(), (3,), (2, 3)]), st.integers(0, 99))
def test_theorem(out: int, width: int, batch: tuple[int, ...], seed: int) -> None:
    W, a, delta = case(out, width, batch, seed)
    update = implicit_update(W, a, delta)
    assert miss(update, W, a, delta) <= 1e-10 * (1 + update.frobenius().max().item() * a.norm().item())
    assert update.columns == 1
    assert torch.equal(update.rank(), torch.ones(batch, dtype=torch.int64))


def test_control_a_random_update_of_equal_norm_misses() -> None:
    W, a, delta = case()
    update = implicit_update(W, a, delta)
    other = Update(*case(7, 1)[:1], torch.randn(5, 1, generator=torch.Generator().manual_seed(9), dtype=F64))
    other = other * (update.frobenius() / other.frobenius())
    torch.testing.assert_close(other.frobenius(), update.frobenius())
    assert miss(other, W, a, delta) > 1e-2


def test_control_the_denominator_matters() -> None:
    """Normalising by the full context's activation, as some code does, is not the theorem."""
    W, a, delta = case()
    full = a + delta
    wrong = Update((W @ delta).unsqueeze(-1), (a / full.square().sum()).unsqueeze(-1))
    assert miss(wrong, W, a, delta) > 1e-2


@given(st.integers(0, 199))
def test_smallest_among_random_members_of_the_family(seed: int) -> None:
    W, a, delta = case(seed=seed)
    update = implicit_update(W, a, delta)
    g = torch.Generator().manual_seed(seed + 1000)
    B = Update(torch.randn(7, 3, generator=g, dtype=F64), torch.randn(5, 3, generator=g, dtype=F64))
    member = family(update, a, B)
    assert blind_to(B, a)(a).abs().max() < 1e-12
    assert miss(member, W, a, delta) < 1e-10
    assert member.frobenius() > update.frobenius()
    # Pythagoras: the two parts are orthogonal.
    squares = update.frobenius() ** 2 + blind_to(B, a).frobenius() ** 2
    torch.testing.assert_close(member.frobenius() ** 2, squares)


@given(st.integers(0, 199))
def test_any_carrier_serves_but_none_is_smaller(seed: int) -> None:
    W, a, delta = case(seed=seed)
    v = torch.randn(5, generator=torch.Generator().manual_seed(seed + 1000), dtype=F64)
    update, other = implicit_update(W, a, delta), implicit_update(W, a, delta, carrier=v)
    torch.testing.assert_close((other.v.squeeze(-1) * a).sum(), torch.tensor(1.0, dtype=F64))
    assert miss(other, W, a, delta) < 1e-10 * (1 + other.frobenius())
    assert other.columns == 1
    assert other.frobenius() >= update.frobenius() * (1 - 1e-12)


def test_every_solution_is_in_the_family() -> None:
    """A solution computed by other means differs from the theorem's by a matrix that maps `a` to 0."""
    W, a, delta = case()
    other = implicit_update(W, a, delta, carrier=torch.ones(5, dtype=F64))
    difference = other - implicit_update(W, a, delta)
    torch.testing.assert_close(blind_to(difference, a).dense(), difference.dense())


def test_residual_term_three_ways() -> None:
    g = torch.Generator().manual_seed(0)
    h, delta, n, m, b = (torch.randn(6, generator=g, dtype=F64) for _ in range(5))
    torch.testing.assert_close(residual_bias(delta).added_to(b), b + delta)
    torch.testing.assert_close(residual_matrix(h, delta)(h), delta)
    torch.testing.assert_close(residual_scale(n, delta).added_to(m) * n, m * n + delta)


def test_scalar_picture_is_the_relative_change() -> None:
    w, full, reduced = (torch.tensor(v, dtype=F64) for v in (3.0, 5.0, 2.0))
    gamma = scalar_update(w, full, reduced)
    assert (w + gamma) * reduced == w * full
    as_matrix = implicit_update(w.reshape(1, 1), reduced.reshape(1), (full - reduced).reshape(1))
    assert as_matrix.dense().item() == pytest.approx(gamma.item(), rel=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-12), (torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_every_dtype_on_every_device(dtype: torch.dtype, tolerance: float, device: str) -> None:
    W, a, delta = (t.to(device, dtype) for t in case(64, 64, (10,)))
    update = implicit_update(W, a, delta)
    assert (update.u.dtype, update.u.device.type) == (dtype, device)
    effect, want = update(a).double(), (delta.double() @ W.double().mT)
    assert (effect - want).abs().max() < tolerance
    assert want.abs().max() > 1  # the control: without the update it would be off by this


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15])
def test_small_and_large_activations_do_not_underflow(scale: float) -> None:
    W, a, delta = (t.float() for t in case())
    update = implicit_update(W, a * scale, delta * scale)
    torch.testing.assert_close(update(a * scale), (delta * scale) @ W.mT, rtol=1e-4, atol=0)


def test_bfloat16_takes_any_ordinary_carrier() -> None:
    g = torch.Generator().manual_seed(0)
    a, v = (torch.randn(20, 4096, generator=g).bfloat16() for _ in range(2))
    assert implicit_update(torch.ones(2, 4096).bfloat16(), a, a, carrier=v).u.shape == (20, 2, 1)


def test_one_right_factor_serves_all_tokens() -> None:
    W, a, _ = case()
    deltas = torch.randn(40, 5, dtype=F64, generator=torch.Generator().manual_seed(1))
    update = implicit_update(W, a.unsqueeze(0), deltas)
    assert update.v.shape == (1, 5, 1)
    assert update.u.shape == (40, 7, 1)


W, A, D = case()
NAN, INF = torch.full((5,), torch.nan, dtype=F64), torch.full((5,), torch.inf, dtype=F64)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: implicit_update(W, 0 * A, D), r"`a` = A\(C∖Y, x\) is zero, so no weight update can act on it: keep"),
        (lambda: implicit_update(W, torch.stack([A, 0 * A]), D), "is zero for 1 of 2 inputs"),
        (lambda: implicit_update(W, NAN, D), "`a` has NaN or infinite entries"),
        (lambda: implicit_update(W, A, INF), "`delta` has NaN or infinite entries"),
        (lambda: implicit_update(W, NAN, INF), "`a`, `delta` have NaN"),
        (lambda: implicit_update(W[0], A, D), r"`W` has shape \(5,\), but must be a matrix"),
        (lambda: implicit_update(W, A[:4], D), r"`a` has shape \(4,\), but its last dimension must be 5 to fit `W`"),
        (lambda: implicit_update(W, A[:4], D[:3]), r"(?s)`a` has shape \(4,\).*`delta` has shape \(3,\)"),
        (lambda: implicit_update(W, A.expand(2, 5), D.expand(3, 5)), r"`a` \(2,\), `delta` \(3,\)"),
        (lambda: rank_one(torch.eye(2)[0], torch.ones(3), carrier=torch.eye(2)[1]), "`carrier` is orthogonal to `a`"),
        (lambda: rank_one(torch.ones(2), torch.ones(3), carrier=torch.ones(3)), r"`carrier` has shape \(3,\)"),
        (lambda: residual_scale(torch.tensor([1.0, 0.0]), torch.ones(2)), "zero in 1 of 2 coordinates"),
        (lambda: scalar_update(torch.ones(1), torch.ones(1), torch.zeros(1)), "`reduced` = .* is zero"),
        (lambda: residual_matrix(torch.zeros(3), torch.ones(2)), "is zero"),
        (lambda: residual_bias(NAN), "`delta` has NaN"),
        (
            lambda: implicit_update(W.float(), A, D),
            "`W` is float32 on cpu, `a` is float64 on cpu, .*convert",
        ),
        (lambda: implicit_update(W, A.long(), D), "`a` holds int64: pass floating point numbers"),
        (lambda: implicit_update(W.expand(2, 7, 5), A.expand(3, 5), D), r"`W` \(2,\), `a` \(3,\)"),
        (lambda: rank_one(torch.tensor(1.0), torch.tensor(1.0)), "a number was passed"),
    ],
)
def test_bad_input_gets_one_sentence(wrong, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_the_pseudoinverse_of_a_vector_at_any_size(size: float) -> None:
    """`vᵀa = 1` and `v ∥ a`, float64, 1e-12; the square of such a norm is 0 or infinite."""
    a = size * torch.tensor([[3.0, -4.0], [1.0, 0.0]], dtype=torch.float64)
    v = pseudoinverse(a)
    torch.testing.assert_close((v * a).sum(-1), torch.ones(2, dtype=torch.float64), rtol=1e-12, atol=0)
    torch.testing.assert_close(v * size, torch.tensor([[0.12, -0.16], [1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: pseudoinverse(torch.zeros(2, 3)), "is zero for 2 of 2 inputs"),
        (lambda: pseudoinverse(torch.tensor([1.0, float("nan")])), "`a` has NaN or infinite entries"),
        (lambda: pseudoinverse(torch.tensor([1e-6, 0.0], dtype=torch.float16)), "NaN or infinite entries|is zero"),
        (lambda: quotient(torch.ones(2), torch.tensor([0.0, 1.0])), "`n` is zero in 1 of 2 coordinates"),
        (
            lambda: quotient(torch.full((1,), 1e300, dtype=F64), torch.full((1,), 1e-300, dtype=F64)),
            "`quotient` has NaN",
        ),
        (lambda: quotient(torch.tensor([float("inf")]), torch.ones(1)), "`delta` has NaN or infinite entries"),
    ],
)
def test_what_cannot_be_divided_is_refused(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()


def test_a_quotient_is_zero_where_nothing_is_asked_for() -> None:
    assert quotient(torch.tensor([0.0, 6.0]), torch.tensor([0.0, 2.0])).tolist() == [0.0, 3.0]
