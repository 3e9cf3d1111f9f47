"""One update for many tokens: exact where possible, and reported as inexact otherwise."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from inweights import InputError, implicit_update, least_squares, static_update

F64 = torch.float64
WIDTH, OUT = 8, 6


def case(tokens: int, batch: tuple[int, ...] = (), seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    W = torch.randn(OUT, WIDTH, generator=g, dtype=F64)
    Z, dZ = (torch.randn(*batch, tokens, WIDTH, generator=g, dtype=F64) for _ in range(2))
    return W, Z, dZ


def miss(update, W: Tensor, Z: Tensor, dZ: Tensor) -> float:
    return (Z @ update.added_to(W).mT - (Z + dZ) @ W.mT).abs().max().item()


@given(st.integers(1, WIDTH), st.sampled_from([(), (3,)]), st.integers(0, 50))
def test_exact_up_to_the_number_of_independent_tokens(tokens: int, batch: tuple[int, ...], seed: int) -> None:
    W, Z, dZ = case(tokens, batch, seed)
    solved = static_update(W, Z, dZ)
    assert bool(solved.exact.all())
    assert bool((solved.rank == tokens).all())
    assert solved.update.columns == tokens
    assert miss(solved.update, W, Z, dZ) < 1e-10 * solved.condition.max()


@given(st.integers(WIDTH + 1, 3 * WIDTH), st.integers(0, 20))
def test_beyond_that_it_is_reported_as_least_squares(tokens: int, seed: int) -> None:
    W, Z, dZ = case(tokens, seed=seed)
    solved = static_update(W, Z, dZ)
    assert not bool(solved.exact)
    assert solved.residual > 1e-2
    reference = torch.linalg.lstsq(Z, dZ @ W.mT).solution.mT
    torch.testing.assert_close(solved.update.dense(), reference, rtol=1e-8, atol=1e-8)


@given(st.integers(1, 12), st.integers(1, 12), st.booleans(), st.integers(0, 50))
def test_exact_exactly_when_the_projection_keeps_the_change(tokens: int, rank: int, inside: bool, seed: int) -> None:
    """`ΔZ Z⁺Z = ΔZ` decides, whatever the rank of `Z`."""
    g = torch.Generator().manual_seed(seed)
    Z = torch.randn(tokens, rank, generator=g, dtype=F64) @ torch.randn(rank, WIDTH, generator=g, dtype=F64)
    dZ = torch.randn(tokens, WIDTH, generator=g, dtype=F64)
    if inside:  # the same combinations of tokens
        dZ = Z @ torch.randn(WIDTH, WIDTH, generator=g, dtype=F64)
    kept = torch.allclose(Z @ torch.linalg.pinv(Z) @ dZ, dZ, atol=1e-6)
    assert bool(least_squares(Z, dZ).exact) == kept


def test_one_token_is_the_theorem() -> None:
    W, Z, dZ = case(1)
    theorem = implicit_update(W, Z[0], dZ[0])
    torch.testing.assert_close(static_update(W, Z, dZ).update.dense(), theorem.dense())


def test_equal_tokens_that_should_change_differently_are_not_exact_and_not_huge() -> None:
    W, Z, dZ = case(3)
    for gap in (0.0, 1e-12):  # equal, or equal up to rounding noise
        Z[1] = Z[0] + gap * Z[2]
        solved = static_update(W, Z, dZ)
        assert not bool(solved.exact)
        assert solved.rank == 2
        assert solved.residual > 1e-2
        assert solved.growth(W) < 10
    naive = dZ.mT @ torch.linalg.pinv(Z, rtol=0).mT  # the control: this is what hides it
    assert naive.norm() > 1e8


@pytest.mark.parametrize(("dtype", "factor"), [(F64, 1e9), (torch.float32, 1e4)])
def test_one_large_target_does_not_hide_that_small_ones_are_missed(dtype: torch.dtype, factor: float) -> None:
    _, Z, dZ = (t.to(dtype) for t in case(3))
    Z[2] = Z[1]
    dZ[0] *= factor
    assert not bool(least_squares(Z, dZ).exact)
    dZ[2] = dZ[1]
    assert bool(least_squares(Z, dZ).exact)


def test_tokens_that_need_not_change_do_not_spoil_exactness() -> None:
    W, Z, dZ = case(5)
    dZ[1:] = 0
    solved = static_update(W, Z, dZ)
    assert bool(solved.exact)
    assert miss(solved.update, W, Z, dZ) < 1e-10


def test_small_inputs_do_not_underflow() -> None:
    _, Z, dZ = (t.float() * 1e-20 for t in case(4))
    assert bool(least_squares(Z, dZ).exact)


def test_equal_tokens_that_change_equally_are_exact() -> None:
    W, Z, dZ = case(3)
    Z[1], dZ[1] = Z[0], dZ[0]
    solved = static_update(W, Z, dZ)
    assert bool(solved.exact)
    assert solved.rank == 2
    assert miss(solved.update, W, Z, dZ) < 1e-10


def test_condition_number_is_that_of_the_inputs() -> None:
    W, Z, dZ = case(5)
    torch.testing.assert_close(static_update(W, Z, dZ).condition, torch.linalg.cond(Z))


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
def test_ridge_is_the_closed_form(ridge: float) -> None:
    _, Z, dZ = case(20)
    gram = Z.mT @ Z + ridge * torch.eye(WIDTH, dtype=F64)
    torch.testing.assert_close(least_squares(Z, dZ, ridge=ridge).update.dense(), torch.linalg.solve(gram, Z.mT @ dZ).mT)


def test_it_is_the_smallest_solution() -> None:
    _, Z, dZ = case(3)
    solved = least_squares(Z, dZ).update
    _, _, Qh = torch.linalg.svd(Z)
    unseen = Qh[3:]  # directions that no token has
    other = solved.dense() + torch.ones(WIDTH, len(unseen), dtype=F64) @ unseen
    assert (Z @ other.mT - dZ).abs().max() < 1e-10
    assert other.norm() > solved.frobenius()


@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-10), (torch.float32, 1e-3), (torch.bfloat16, 1.0)])
def test_every_dtype_on_every_device(dtype: torch.dtype, tolerance: float, device: str) -> None:
    W, Z, dZ = (t.to(device, dtype) for t in case(4))
    solved = static_update(W, Z, dZ)
    assert bool(solved.exact)
    assert solved.update.u.dtype == dtype
    assert (solved.update(Z).double() - dZ.double() @ W.double().mT).abs().max() < tolerance


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: least_squares(torch.ones(3, 2), torch.ones(4, 2)), "the same number of tokens"),
        (lambda: least_squares(torch.ones(0, 2), torch.ones(0, 2)), "`Z` has no tokens"),
        (lambda: least_squares(torch.ones(3, 2), torch.ones(3, 2), ridge=-1), "`ridge` is -1"),
        (lambda: least_squares(torch.ones(3, 2), torch.ones(3, 2), ridge=float("nan")), "`ridge` is nan"),
        (lambda: least_squares(torch.ones(3, 2), torch.ones(3, 2), cut=2), "`cut` is 2, but must be a fraction"),
        (lambda: static_update(torch.ones(2), torch.ones(3, 2), torch.ones(3, 2)), "`W` has shape .* must be a matrix"),
        (lambda: least_squares(torch.ones(3, 2), torch.ones(3, 2).double()), "`Z` is float32 .* `T` is float64"),
        (lambda: least_squares(torch.full((3, 2), torch.nan), torch.ones(3, 2)), "`Z` has NaN"),
        (lambda: static_update(torch.ones(2, 5), torch.ones(3, 2), torch.ones(3, 2)), r"(?s)`Z`.*5 to fit `W`.*`dZ`"),
    ],
)
def test_bad_input_gets_one_sentence(wrong, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()
