"""The Lasso's path, against scikit-learn and against the conditions of optimality, also where coordinates tie."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import Lasso as TheirLasso
from torch import Tensor

from inweights._errors import InputError
from inweights.lab import Draw
from inweights.lab.predictors import Lasso, lasso_path

PENALTIES = (1.0, 0.1, 0.01, 1e-3, 1e-4)


def sparse(dims: int, points: int, batch: int = 4, seed: int = 1) -> tuple[Tensor, Tensor]:
    draw = Draw(seed, 0, batch, dtype=torch.float64)
    w = draw.normal(dims) * draw.bernoulli(0.4, dims)
    xs = draw.normal(points, dims)
    return xs, (xs @ w.unsqueeze(-1)).squeeze(-1) + 0.1 * draw.normal(points)


def theirs(x: Tensor, y: Tensor, penalty: float) -> Tensor:
    model = TheirLasso(alpha=penalty, fit_intercept=False, max_iter=1_000_000, tol=1e-12)
    return torch.from_numpy(model.fit(x.numpy(), y.numpy()).coef_)


def test_every_penalty_and_prefix_is_that_of_scikit_learn() -> None:
    xs, ys = sparse(6, 12, batch=2)
    path = lasso_path(xs, ys, PENALTIES)
    for k, penalty in enumerate(PENALTIES):
        for i in range(1, 12):
            for b in range(2):
                expected = theirs(xs[b, :i], ys[b, :i], penalty)
                asked = xs[b, i]
                assert abs(float(asked @ path[k, b, i] - asked @ expected)) < 1e-4  # float64; theirs stops at a gap
    assert abs(float(xs[0, 9] @ (path[1, 0, 9] - theirs(xs[0, :9], ys[0, :9], 0.2)))) > 1e-3


def violation(xs: Tensor, ys: Tensor, path: Tensor) -> float:
    """By how much the optimality conditions are missed, in the worst of all problems: `Xᵀ(y − X w)/n` is `α sign(w)`
    where `w` is not zero, and within ± α elsewhere."""
    worst = 0.0
    for penalty, weights in zip(PENALTIES, path, strict=True):
        for i in range(1, xs.shape[1]):
            w = weights[:, i]
            rest = ys[:, :i, None] - xs[:, :i] @ w.unsqueeze(-1)
            pull = (xs[:, :i].mT @ rest).squeeze(-1) / i
            missed = torch.where(w != 0, (pull - penalty * w.sign()).abs(), (pull.abs() - penalty).clamp(min=0))
            worst = max(worst, float(missed.max()))
    return worst


@pytest.mark.parametrize(
    "kind", ["normal", "signs", "signs and classes", "twins", "near twins", "few coordinates", "integers"]
)
def test_the_path_is_optimal_also_where_inputs_are_degenerate(kind: str) -> None:
    """float64, 32 prompts, as many points as twice the dimensions."""
    xs, ys = sparse(10, 21, batch=32)
    if kind.startswith("signs"):
        xs = xs.sign()
    if kind == "signs and classes":
        ys = ys.sign()
    if kind == "twins":
        xs[:, 12:] = xs[:, :9].clone()
        xs[:, :, 5:] = -xs[:, :, :5]
    if kind == "near twins":
        xs[:, :, 5:] = 1e-3 * xs[:, :, 5:] - xs[:, :, :5]
    if kind == "few coordinates":
        xs[:, :, 4:] = 0
    if kind == "integers":
        xs, ys = xs.round(), ys.round()
    assert violation(xs, ys, lasso_path(xs, ys, PENALTIES)) < (1e-6 if kind == "near twins" else 1e-11)


def test_the_check_of_optimality_can_fail() -> None:
    xs, ys = sparse(10, 21)
    assert violation(xs, ys, lasso_path(xs, ys, [1.01 * p for p in PENALTIES])) > 1e-3


def test_penalties_come_in_any_order_and_alone() -> None:
    xs, ys = sparse(6, 15)
    path = lasso_path(xs, ys, PENALTIES)
    assert torch.allclose(lasso_path(xs, ys, PENALTIES[::-1]), path.flip(0), atol=1e-13)
    assert torch.allclose(Lasso(penalty=0.01).weights(xs, ys), path[2], atol=1e-13)
    assert (lasso_path(xs, ys, [1e6]) == 0).all()
    with pytest.raises(InputError, match="must be numbers above 0"):
        lasso_path(xs, ys, [0.1, 0.0])


def test_float32_is_computed_as_carefully() -> None:
    xs, ys = (v.float() for v in sparse(6, 15))
    exact = lasso_path(xs.double(), ys.double(), PENALTIES)
    assert torch.allclose(lasso_path(xs, ys, PENALTIES).double(), exact, atol=1e-6)
