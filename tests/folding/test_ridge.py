"""Ridge regression over batches of tokens, and its best approximation of low rank."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from inweights import InputError
from inweights.folding._ridge import RidgeFit, cut


def tokens(n: int, *sizes: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(n, size, generator=generator, dtype=torch.float64) for size in sizes]


def fitted(x: Tensor, y: Tensor, w: Tensor, penalty: float = 0.3, parts: int = 1, **how: float) -> RidgeFit:
    fit = RidgeFit(penalty, **how)  # type: ignore[arg-type]
    for a, b, c in zip(x.chunk(parts), y.chunk(parts), w.chunk(parts), strict=True):
        fit.add(a, b, c)
    return fit


def test_ridge_is_a_dense_solve_also_in_parts() -> None:
    x, y = tokens(60, 12, 7)
    w = torch.rand(60, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    w[::5] = 0
    G = x.mT @ (w.unsqueeze(-1) * x)
    M = torch.linalg.solve(G + 0.3 * G.diagonal().mean() * torch.eye(12).double(), x.mT @ (w.unsqueeze(-1) * y)).mT
    for parts in (1, 6):
        torch.testing.assert_close(fitted(x, y, w, parts=parts).update().dense(), M, rtol=0, atol=1e-12)
    (W,) = tokens(20, 7)
    torch.testing.assert_close(fitted(x, y, w).update(W).dense(), W @ M, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("out", "inside"), [(7, 12), (12, 7), (9, 9)])
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_cut_is_the_best_of_its_rank_in_its_metric(out: int, inside: int, rank: int) -> None:
    x, D = tokens(40, inside)[0], tokens(out, inside)[0]
    G = x.mT @ x + torch.eye(inside)
    values, vectors = torch.linalg.eigh(G)
    root = vectors * values.sqrt() @ vectors.mT  # another root than the one that is used
    U, s, Vh = torch.linalg.svd(D @ root, full_matrices=False)
    best = (U[:, :rank] * s[:rank]) @ Vh[:rank] @ torch.linalg.inv(root)
    made = cut(D, torch.linalg.cholesky(G), rank)
    assert made.columns == rank
    torch.testing.assert_close(made.dense(), best, rtol=0, atol=1e-9)
    plain = cut(D, None, rank)
    miss = [torch.linalg.norm((D - u.dense()) @ root) for u in (made, plain)]
    assert miss[0] <= miss[1]


@pytest.mark.parametrize(("out", "inside"), [(7, 12), (12, 7)])
def test_energy_chooses_the_fewest_columns(out: int, inside: int) -> None:
    (D,) = tokens(out, inside)
    s = torch.linalg.svdvals(D).square()
    for energy in (0.5, 0.9, 0.999, 1.0):
        made = cut(D, None, energy=energy)
        kept = [float(s[:r].sum() / s.sum()) for r in (made.columns - 1, made.columns)]
        assert kept[0] < energy <= kept[1] + 1e-12
    assert cut(D, None, 2, 0.999).columns == 2
    whole = cut(D, None)
    assert whole.columns == min(out, inside)
    assert torch.equal(whole.dense(), D)
    assert cut(torch.zeros_like(D), None, energy=0.9).dense().abs().max() == 0


def test_a_ridge_too_small_for_the_precision_is_raised_and_said() -> None:
    x, y = (t.float() for t in tokens(3, 40, 5))
    with pytest.warns(RuntimeWarning, match=r"ridge of 1e-12 is too small for a matrix: 1e-[0-9]* was taken"):
        made = fitted(x, y, torch.ones(3), 1e-12).update()
    torch.testing.assert_close(x @ made.dense().mT, y, rtol=0, atol=1e-2)


@pytest.mark.parametrize("broken", [(torch.nan,), (torch.inf,), ()])
def test_broken_inputs_are_refused(broken: Sequence[float]) -> None:
    fit = RidgeFit(0.3, name="that matrix")
    for value in broken:
        fit.add(torch.full((3, 4), value), torch.ones(3, 2), torch.ones(3))
    with pytest.raises(InputError, match="that matrix cannot be fitted"):
        fit.update()
