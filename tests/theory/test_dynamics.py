"""Proposition 3.1 and Appendix B on plain tensors; on blocks they are in tests/blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inweights import InputError, Update, gradient_path, product_path

F64 = torch.float64


def outputs(n: int = 6, batch: tuple[int, ...] = (), width: int = 5) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return torch.randn(7, width, generator=g, dtype=F64), torch.randn(*batch, n + 1, width, generator=g, dtype=F64)


def linear_loss(W0: Tensor, A: Tensor, i: int, W: Tensor) -> Tensor:
    """`L_i(W) = trace(Δ_iᵀ W)`, written as the paper does."""
    delta = torch.outer(W0 @ (A[i] - A[i + 1]), A[0])
    return torch.trace(delta.mT @ W)


def test_the_path_is_gradient_descent_on_the_papers_losses() -> None:
    W0, A = outputs()
    path = gradient_path(W0, A)
    torch.testing.assert_close(path.h, 1 / A[0].square().sum())
    W = W0.clone()
    for i in range(6):
        torch.testing.assert_close(path.updates[i].added_to(W0), W, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(W @ A[0], W0 @ A[i])  # T_{W_i}(x) = T_{W_0}(c_1…c_i, x)
        torch.testing.assert_close(path.losses()[i], linear_loss(W0, A, i, W))
        gradient = torch.func.grad(lambda V, i=i: linear_loss(W0, A, i, V))(W)
        torch.testing.assert_close(path.gradients[i].dense(), gradient)
        step = path.h * gradient
        torch.testing.assert_close(path.increments()[i], step.norm())
        W = W - step
    torch.testing.assert_close(path.updates[6].added_to(W0), W)


def test_losses_at_another_point() -> None:
    W0, A = outputs()
    other = Update(torch.ones(7, 1, dtype=F64), torch.ones(5, 1, dtype=F64))
    want = torch.stack([linear_loss(W0, A, i, other.added_to(W0)) for i in range(6)])
    torch.testing.assert_close(gradient_path(W0, A).losses(other), want)


def test_all_updates_share_one_right_factor_so_their_sum_has_rank_one() -> None:
    W0, A = outputs()
    path = gradient_path(W0, A)
    assert path.updates.v.shape == (1, 5, 1)
    assert torch.linalg.matrix_rank(path.updates.dense().sum(0)) == 1


def test_product_form_is_the_product() -> None:
    W0, A = outputs()
    path, one = product_path(W0, A), torch.eye(5, dtype=F64)
    W = W0.clone()
    for i in range(1, 7):
        factor = torch.outer(A[i - 1] - A[i], A[i]) / A[i].square().sum()
        W = W @ (one + factor)
        torch.testing.assert_close(path.update(i).added_to(W0), W)
        torch.testing.assert_close(W @ A[i], W0 @ A[0])  # T_{W_i}(c_{i+1}…c_n, x) = T_{W_0}(C, x)
    assert path.update(0).dense().abs().max() == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_the_product_form_is_not_of_rank_one(n: int) -> None:
    W0, A = outputs(n)
    assert product_path(W0, A).total.rank() == min(n, 5)
    assert gradient_path(W0, A.flip(0)).updates[n].rank() == 1


def test_both_paths_end_with_the_same_output() -> None:
    W0, A = outputs()
    through_product = product_path(W0, A).total.added_to(W0) @ A[-1]
    through_gradient = gradient_path(W0, A.flip(0)).updates[6].added_to(W0) @ A[-1]
    torch.testing.assert_close(through_product, through_gradient)


@pytest.mark.parametrize("make", [gradient_path, product_path])
def test_batches_and_batched_weights(make) -> None:
    W0, A = outputs(batch=(2, 3))
    several = W0 + torch.arange(3.0).reshape(3, 1, 1)
    batched, one = make(several, A), make(several[1], A[0, 1])
    pick = (
        (lambda p, b: p.updates.dense()[0, 1] if b else p.updates.dense())
        if make is gradient_path
        else (lambda p, b: p.total.dense()[0, 1] if b else p.total.dense())
    )
    torch.testing.assert_close(pick(batched, True), pick(one, False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_dtype_on_every_device(dtype: torch.dtype, device: str) -> None:
    W0, A = (t.to(device, dtype) for t in outputs())
    assert gradient_path(W0, A).updates.u.dtype == dtype
    assert product_path(W0, A).total.u.dtype == dtype
    if dtype == torch.float32:
        got = product_path(W0, A).total(A[-1])
        torch.testing.assert_close(got, (A[0] - A[-1]) @ W0.mT, rtol=1e-3, atol=1e-3)


W0, A = outputs()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: gradient_path(W0, A[:1]), "`prefixes` holds A.x. alone: the context is empty"),
        (lambda: product_path(W0, A[:1]), "`suffixes` holds A.x. alone: the context is empty"),
        (lambda: gradient_path(W0, A[:, :3]), r"`prefixes` has shape \(7, 3\).*must be 5"),
        (lambda: gradient_path(W0, A[0]), r"`prefixes` has shape \(5,\), but must be \(\.\.\., n\+1, in\)"),
        (lambda: gradient_path(W0[0], A), r"`W` has shape \(5,\), but must be a matrix"),
        (lambda: gradient_path(W0.float(), A), "`W` is float32 on cpu, `prefixes` is float64 on cpu: convert them"),
        (lambda: product_path(W0.expand(2, 7, 5), A.expand(3, 7, 5)), r"`W` \(2,\), `suffixes` \(3,\)"),
        (lambda: gradient_path(W0, A * torch.nan), "`prefixes` has NaN"),
        (lambda: gradient_path(W0, A - A[0]), "is zero"),
        (lambda: product_path(W0, A - A[3]), "non-zero output at every suffix"),
        (lambda: product_path(W0, A).update(7), "`i` is 7, but the context has 6 tokens"),
    ],
)
def test_bad_input_gets_one_sentence(wrong, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()
