"""`Update` against the dense matrices that it never forms."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from inweights import InputError, Update

F64 = torch.float64
# Leading dimensions of u and v: none, one, shared v, both broadcast.
BATCHES = [((), ()), ((3,), (3,)), ((2, 3), (2, 1)), ((2, 1), (1, 3)), ((4,), ())]


def make(
    out: int, width: int, rank: int, batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()), seed: int = 0
) -> Update:
    g = torch.Generator().manual_seed(seed)
    return Update(
        torch.randn(*batch[0], out, rank, generator=g, dtype=F64),
        torch.randn(*batch[1], width, rank, generator=g, dtype=F64),
    )


sizes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
batches = st.sampled_from(BATCHES)


def close(x: Tensor, y: Tensor) -> None:
    torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-11)


@given(sizes, batches)
def test_norms_rank_and_singular_values_are_those_of_the_dense_matrix(size, batch) -> None:
    update = make(*size, batch=batch)
    dense = update.dense()
    assert dense.shape == update.shape
    close(update.frobenius(), torch.linalg.matrix_norm(dense))
    close(update.spectral(), torch.linalg.matrix_norm(dense, ord=2))
    assert torch.equal(update.rank(), torch.linalg.matrix_rank(dense))


@given(sizes, batches, st.integers(1, 4))
def test_algebra_is_that_of_the_dense_matrix(size, batch, other_rank) -> None:
    a, b = make(*size, batch=batch, seed=1), make(size[0], size[1], other_rank, seed=2)
    close((a + b).dense(), a.dense() + b.dense())
    close((a - b).dense(), a.dense() - b.dense())
    close((2.5 * a).dense(), 2.5 * a.dense())
    close((a / 4).dense(), a.dense() / 4)
    close((-a).dense(), -a.dense())
    close(a.mT.dense(), a.dense().mT)
    close(a.inner(b), (a.dense() * b.dense()).sum((-2, -1)))
    cosine = a.inner(b) / (torch.linalg.matrix_norm(a.dense()) * torch.linalg.matrix_norm(b.dense()))
    close(a.alignment(b), cosine)
    close((a @ b.mT).dense(), a.dense() @ b.dense().mT)
    W = torch.ones(3, size[0], dtype=F64)
    close(a.premultiplied(W).dense(), W @ a.dense())


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))
def test_composition_is_the_product_of_two_maps_near_the_identity(width: int, r: int, s: int) -> None:
    a, b = make(width, width, r, seed=1), make(width, width, s, seed=2)
    one = torch.eye(width, dtype=F64)
    close(one + a.compose(b).dense(), (one + a.dense()) @ (one + b.dense()))


@given(sizes, batches)
def test_application_needs_no_matrix(size, batch) -> None:
    update = make(*size, batch=batch)
    x = torch.randn(size[1], generator=torch.Generator().manual_seed(3), dtype=F64)
    close(update(x), update.dense() @ x)
    many = x.expand(*update.batch, size[1])
    close(update(many), (update.dense() @ many.unsqueeze(-1)).squeeze(-1))


def test_a_factor_for_each_entry_scales_each_entry() -> None:
    update, strength = make(3, 4, 2, batch=((5,), ())), torch.arange(5.0)
    close((update * strength).dense(), update.dense() * strength[:, None, None])


def test_updates_that_share_their_right_factor_add_without_growing() -> None:
    a = make(3, 4, 1)
    b = Update(torch.ones(3, 1, dtype=F64), a.v)
    total = a + b
    assert total.columns == 1
    many = make(3, 4, 1, ((6,), (1,)))
    assert (many[1:] - many[:-1]).columns == 1
    close(total.dense(), a.dense() + b.dense())


def test_picking_keeps_the_shared_factor_shared() -> None:
    update = make(3, 4, 1, batch=((2, 5), (2, 1)))
    close(update[1].dense(), update.dense()[1])
    close(update[..., 1:].dense(), update.dense()[:, 1:])
    close(update[0, 2:4].dense(), update.dense()[0, 2:4])
    assert update[..., 1:].nbytes < update[..., 1:].dense().nbytes
    assert update.nbytes == 8 * (2 * 5 * 3 + 2 * 4)


def test_no_columns_is_the_zero_update() -> None:
    zero = make(3, 4, 0)
    assert zero.dense().abs().max() == 0
    assert zero.frobenius() == zero.spectral() == zero.rank() == 0
    assert zero.alignment(make(3, 4, 1)) == 0


def test_a_zero_update_has_rank_zero() -> None:
    assert Update(torch.zeros(3, 1), torch.ones(4, 1)).rank() == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_dtype_on_every_device(dtype: torch.dtype, device: str) -> None:
    exact = make(8, 6, 2, batch=((3,), (1,)))
    update = exact.to(dtype).to(device)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    assert update.u.dtype == dtype
    assert update.u.device.type == device
    for got, want in [
        (update.frobenius(), exact.frobenius()),
        (update.spectral(), exact.spectral()),
        (update.inner(update), exact.inner(exact)),
        ((update + update).frobenius(), (exact + exact).frobenius()),
    ]:
        torch.testing.assert_close(got.cpu().double(), want, rtol=tolerance, atol=tolerance)
    x = torch.ones(6, dtype=dtype, device=device)
    torch.testing.assert_close(update(x).cpu().double(), exact(x.cpu().double()), rtol=tolerance, atol=4 * tolerance)
    assert torch.equal(update.rank().cpu(), torch.tensor([2, 2, 2]))


def test_adding_to_a_matrix_rounds_once() -> None:
    """In bfloat16 a small update would vanish twice over if the product were rounded before the sum."""
    update = Update(torch.full((1, 1), 1 + 2**-7), torch.full((1, 1), 1 + 2**-7)).to(torch.bfloat16)
    W = torch.full((1, 1), 64.0, dtype=torch.bfloat16)
    exact = 64 + (1 + 2**-7) ** 2
    assert update.added_to(W).item() == torch.tensor(exact).to(torch.bfloat16).item()


def test_values_are_immutable() -> None:
    with pytest.raises(AttributeError):
        make(2, 2, 1).u = torch.zeros(2, 1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Update(torch.zeros(3, 2), torch.zeros(4, 1)), r"`u` \(3, 2\) and `v` \(4, 1\) are not the factors"),
        (lambda: Update(torch.zeros(3), torch.zeros(3)), r"must be \(\.\.\., out, r\)"),
        (
            lambda: Update(torch.zeros(3, 1), torch.zeros(4, 1).double()),
            "`u` is float32 .*`v` is float64 on cpu: convert",
        ),
        (lambda: Update(torch.zeros(2, 3, 1), torch.zeros(5, 4, 1)), r"do not broadcast: `u` \(2,\), `v` \(5,\)"),
        (lambda: make(3, 4, 1)(torch.zeros(5, dtype=F64)), r"`x` has shape \(5,\).*must be 4"),
        (lambda: make(3, 4, 1) + make(4, 3, 1), r"shapes \(3, 4\) and \(4, 3\) do not go together"),
        (lambda: make(3, 4, 1).named("a") + make(3, 4, 1).named("b"), "two parameters, 'a' and 'b'"),
        (lambda: make(3, 4, 1).added_to(torch.zeros(4, 3)), r"for matrices of shape \(3, 4\)"),
        (lambda: make(3, 4, 1)[0], "nothing to pick from"),
        (lambda: make(3, 4, 1, ((5,), ()))[2, :3], r"too many: this update has leading dimensions \(5,\)"),
        (lambda: make(3, 4, 1) + make(3, 4, 1).to(torch.float32), "`self` is float64 on cpu, `other` is float32"),
        (lambda: make(3, 4, 1)(torch.zeros(4)), "`x` is float32 on cpu, `update` is float64"),
        (lambda: make(3, 4, 1) @ make(3, 4, 1), "last dimension must be 4"),
    ],
)
def test_misuse_gets_one_sentence(wrong, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()


def test_it_names_itself() -> None:
    assert repr(make(3, 4, 2).named("mlp.first.weight")) == "Update(3, 4) of mlp.first.weight, 2 column(s), float64"
