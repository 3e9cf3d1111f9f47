"""Least squares and its kin, against scikit-learn, against solvers that start anew, and against closed forms."""

from __future__ import annotations

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge as TheirKernelRidge
from sklearn.linear_model import Ridge as TheirRidge
from torch import Tensor

from inweights._errors import InputError
from inweights.lab import Draw
from inweights.lab.predictors import OLS, Averaging, Bayesian, KernelRidge, Outputs, Predictor, Ridge, WeightedRidge
from inweights.lab.tasks import Linear

Prompt = tuple[Tensor, Tensor]


def test_averaging_is_the_mean_of_products(prompt: Prompt) -> None:
    xs, ys = prompt
    result = Averaging().predict_prefixes(xs, ys)
    for i in range(1, xs.shape[1]):
        w = (xs[:, :i] * ys[:, :i, None]).mean(1)
        assert torch.allclose(result[:, i], (w * xs[:, i]).sum(-1), atol=1e-13)


def test_averaging_of_ones_is_the_running_mean(prompt: Prompt) -> None:
    _, ys = prompt
    result = Averaging().predict_prefixes(torch.ones_like(ys).unsqueeze(-1), ys)
    assert torch.allclose(result[:, 7], ys[:, :7].mean(1), atol=1e-14)


def by_pseudoinverse(xs: Tensor, ys: Tensor) -> Tensor:
    result = [torch.zeros_like(xs[:, 0])]
    for i in range(1, xs.shape[1]):
        result.append((torch.linalg.pinv(xs[:, :i], rtol=1e-9) @ ys[:, :i, None]).squeeze(-1))
    return torch.stack(result, 1)


def test_ols_is_the_pseudoinverse_before_at_and_after_full_rank(prompt: Prompt) -> None:
    """float64; the tolerance is for 5 examples in 5 dimensions, where the problem is at its worst."""
    assert torch.allclose(OLS().weights(*prompt), by_pseudoinverse(*prompt), atol=1e-8)


def dependent(kind: str) -> Tensor:
    xs = Draw(2, 0, 4, dtype=torch.float64).normal(13, 5)
    if kind == "few coordinates":
        xs[:, :, 3:] = 0
    elif kind == "repeated points":
        xs[:, 3:6], xs[:, 8:] = xs[:, :3].clone(), xs[:, :5].clone()
    elif kind == "a zero point":
        xs[:, 4] = 0
    elif kind == "signs":
        xs = xs.sign()
    elif kind == "a plane":
        xs = xs[:, :, :2] @ Draw(3, 0, 4, dtype=torch.float64).normal(2, 5)
    return xs


@pytest.mark.parametrize("kind", ["few coordinates", "repeated points", "a zero point", "signs", "a plane"])
@pytest.mark.parametrize("size", [1.0, 1e-4, 1e4])
def test_ols_has_minimal_norm_for_dependent_inputs(kind: str, size: float) -> None:
    xs = size * dependent(kind)
    ys = Draw(4, 0, 4, dtype=torch.float64).normal(13)
    ours, theirs = OLS().weights(xs, ys), by_pseudoinverse(xs, ys)
    assert torch.allclose(ours * size, theirs * size, atol=1e-8)


def test_ols_of_float32_inputs_that_are_dependent_up_to_rounding() -> None:
    xs, ys = dependent("a plane").float(), Draw(4, 0, 4).normal(13)
    theirs = torch.stack([torch.linalg.pinv(xs[:, :i].double(), rtol=1e-5) @ ys[:, :i, None].double() for i in (8, 12)])
    assert torch.allclose(OLS().weights(xs, ys)[:, [8, 12]].double(), theirs.squeeze(-1).transpose(0, 1), atol=1e-4)


def test_ols_without_noise_recovers_the_weights_or_their_projection() -> None:
    """Error 1 − k/d of the zero predictor's for k < d (Garg et al. 2022), 0 from k = d on; 512 prompts, float64."""
    sample = Linear(dims=8).sample(Draw(5, 0, 512, dtype=torch.float64), 12)
    error = (OLS().predict_prefixes(sample.xs, sample.ys) - sample.ys).square().mean(0) / 8
    assert torch.allclose(error[:8], 1 - torch.arange(8, dtype=torch.float64) / 8, atol=0.15)
    assert error[8:].max() < 1e-12


def test_ridge_is_that_of_scikit_learn(prompt: Prompt) -> None:
    xs, ys = prompt

    def theirs(penalty: float) -> Tensor:
        fit = TheirRidge(alpha=penalty, fit_intercept=False).fit
        return torch.tensor(
            [[fit(x[:i], y[:i]).coef_.tolist() for i in range(1, 13)] for x, y in zip(xs, ys, strict=True)],
            dtype=torch.float64,
        )

    for penalty in (1e-4, 0.5, 20.0):
        assert torch.allclose(Ridge(penalty=penalty).weights(xs, ys)[:, 1:], theirs(penalty), atol=1e-7)
    assert not torch.allclose(Ridge(penalty=0.5).weights(xs, ys)[:, 1:], theirs(0.6), atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_small_penalty_loses_little_in_float32(prompt: Prompt, dtype: torch.dtype) -> None:
    xs, ys = (v.to(dtype).double() for v in prompt)
    identity = torch.eye(5, dtype=torch.float64)
    expected = torch.linalg.solve(xs.mT @ xs + 1e-6 * identity, (xs.mT @ ys.unsqueeze(-1)).squeeze(-1))
    longer = [torch.cat([v, v[:, :1]], 1).to(dtype) for v in (xs, ys)]
    assert torch.allclose(Ridge(penalty=1e-6).weights(*longer)[:, -1].double(), expected, atol=1e-6)


def test_a_penalty_below_rounding_is_an_error(prompt: Prompt) -> None:
    xs, ys = prompt
    with pytest.raises(InputError, match="Use the predictor ols instead"):
        Ridge(penalty=1e-300).predict_prefixes(xs, ys)


def test_weighted_ridge_is_its_closed_form(prompt: Prompt) -> None:
    xs, ys = prompt
    prior = (1.0, 1 / 4, 1 / 9, 1 / 16, 1 / 25)

    def closed(noise: float) -> Tensor:
        penalty = noise**2 * torch.diag(1 / torch.tensor(prior, dtype=torch.float64))
        left = [xs[:, :i].mT @ xs[:, :i] + penalty for i in range(13)]
        right = [xs[:, :i].mT @ ys[:, :i, None] for i in range(13)]
        return torch.stack([torch.linalg.solve(a, b).squeeze(-1) for a, b in zip(left, right, strict=True)], 1)

    ours = WeightedRidge(prior=prior, noise=0.3).weights(xs, ys)
    assert torch.allclose(ours, closed(0.3), atol=1e-11)
    assert not torch.allclose(ours, closed(0.4), atol=1e-3)
    even = WeightedRidge(prior=(2.0,) * 5, noise=1.0).weights(xs, ys)
    assert torch.allclose(even, Ridge(penalty=0.5).weights(xs, ys), atol=1e-12)


def test_the_bayesian_posterior_is_a_gaussian_process_with_the_linear_kernel(prompt: Prompt) -> None:
    xs, ys = prompt
    bayesian = Bayesian(noise=0.3, prior=2.0)
    mean, variance = bayesian.predict_prefixes(xs, ys), bayesian.predict_variance(xs)
    asked = bayesian.predict_variance(xs, xs.flip(0))
    identity = torch.eye(5, dtype=torch.float64)
    for i in range(13):
        covariance = torch.linalg.inv(xs[:, :i].mT @ xs[:, :i] / 0.3**2 + identity / 2.0**2)
        w = covariance @ xs[:, :i].mT @ ys[:, :i, None] / 0.3**2
        x, q = xs[:, i, :, None], xs.flip(0)[:, i, :, None]
        assert torch.allclose(mean[:, i], (x.mT @ w).flatten(), atol=1e-11)
        assert torch.allclose(variance[:, i], (x.mT @ covariance @ x).flatten() + 0.3**2, atol=1e-11)
        assert torch.allclose(asked[:, i], (q.mT @ covariance @ q).flatten() + 0.3**2, atol=1e-11)


def test_the_variance_is_the_error_that_occurs() -> None:
    """On 4,096 prompts, float64: squared errors in units of the predicted variance are 1 on average; with twice the
    noise they are not."""
    sample = Linear(dims=4, noise=0.5).sample(Draw(8, 0, 4096, dtype=torch.float64), 9)

    def calibration(noise: float) -> Tensor:
        bayesian = Bayesian(noise=noise)
        errors = (bayesian.predict_prefixes(sample.xs, sample.ys) - sample.ys).square()
        return (errors / bayesian.predict_variance(sample.xs)).mean(0)

    assert torch.allclose(calibration(0.5), torch.ones(9, dtype=torch.float64), atol=0.1)
    assert calibration(1.0)[-1] < 0.6


def test_kernel_ridge_is_that_of_scikit_learn(prompt: Prompt) -> None:
    xs, ys = prompt

    def theirs(gamma: float) -> Tensor:
        model = TheirKernelRidge(alpha=0.3, kernel="rbf", gamma=gamma)
        return torch.tensor(
            [
                [model.fit(x[:i], y[:i]).predict(x[i : i + 1])[0] for i in range(1, 13)]
                for x, y in zip(xs, ys, strict=True)
            ]
        )

    ours = KernelRidge(penalty=0.3, scale=2.0).predict_prefixes(xs, ys)[:, 1:]
    assert torch.allclose(ours, theirs(1 / 8), atol=1e-10)
    assert not torch.allclose(ours, theirs(1 / 4), atol=1e-2)
    process = GaussianProcessRegressor(RBF(2.0), alpha=0.3, optimizer=None).fit(xs[0, :12], ys[0, :12])
    assert abs(process.predict(xs[0, 12:])[0] - float(ours[0, -1])) < 1e-10


@pytest.mark.parametrize("of", [OLS(), Ridge(), KernelRidge(scale=2.0)])
def test_each_output_is_answered_for_itself(prompt: Prompt, of: Predictor) -> None:
    xs, ys = prompt
    several = torch.stack([ys, ys.square(), -ys], -1)
    result = Outputs(of=of).predict_prefixes(xs, several, xs.flip(1))
    for k in range(3):
        assert torch.allclose(result[..., k], of.predict_prefixes(xs, several[..., k], xs.flip(1)), atol=1e-12)
