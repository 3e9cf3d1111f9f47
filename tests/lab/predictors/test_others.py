"""Neighbours, pools, classes, trees and networks, against scikit-learn, torch's own training, and slow loops."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor
from torch import Tensor, nn

from inweights.lab import Draw
from inweights.lab.predictors import (
    OLS,
    DiscreteMMSE,
    LogisticPredictor,
    Nearest,
    Network,
    PreTest,
    RegressionTree,
    Ridge,
    Validation,
    Zero,
)
from inweights.lab.tasks import Linear

Prompt = tuple[Tensor, Tensor]


@pytest.mark.parametrize("neighbours", [1, 3])
def test_nearest_is_that_of_scikit_learn(prompt: Prompt, neighbours: int) -> None:
    xs, ys = prompt
    ours = Nearest(neighbours=neighbours).predict_prefixes(xs, ys)
    for i in range(1, 13):
        model = KNeighborsRegressor(min(neighbours, i)).fit(xs[1, :i], ys[1, :i])
        assert abs(model.predict(xs[1, i : i + 1])[0] - float(ours[1, i])) < 1e-12
    wrong = KNeighborsRegressor(neighbours + 1).fit(xs[1, :12], ys[1, :12]).predict(xs[1, 12:])[0]
    assert abs(wrong - float(ours[1, 12])) > 1e-3


def test_discrete_mmse_is_its_sum_over_the_pool(prompt: Prompt) -> None:
    xs, ys = prompt
    pool = Draw(9, 0, 32, dtype=torch.float64).normal(5)

    def loop(noise: float) -> Tensor:
        result = torch.zeros_like(ys)
        for b in range(4):
            for i in range(13):
                likely = torch.tensor([-(ys[b, :i] - xs[b, :i] @ w).square().sum() / (2 * noise**2) for w in pool])
                result[b, i] = likely.softmax(0) @ (pool @ xs[b, i])
        return result

    ours = DiscreteMMSE(pool=pool, noise=2.0).predict_prefixes(xs, ys)
    assert torch.allclose(ours, loop(2.0), atol=1e-12)
    assert not torch.allclose(ours, loop(1.8), atol=1e-2)


def test_discrete_mmse_beats_ridge_on_its_pool_only() -> None:
    """8 dimensions, 16 points, noise ½, a pool of 64 (Raventós et al. 2023): against labels without noise, in units of
    the dimension, 0.150 on the pool, 0.88 on new weights, ridge 0.34; 2,048 prompts, float32, within 0.05."""
    draw = Draw(4, 0, 2048)
    pool = Draw(5, 0, 64).normal(8)
    xs, noise = draw.normal(16, 8), 0.5 * draw.normal(16)

    def error(predictor: DiscreteMMSE | Ridge, w: Tensor) -> float:
        clean = (xs @ w.unsqueeze(-1)).squeeze(-1)
        return float((predictor.predict_prefixes(xs, clean + noise) - clean).square().mean() / 8)

    of_pool, new = pool[draw.integers(64)], draw.normal(8)
    assert error(DiscreteMMSE(pool=pool), of_pool) == pytest.approx(0.150, abs=0.05)
    assert error(DiscreteMMSE(pool=pool), new) == pytest.approx(0.88, abs=0.05)
    assert error(Ridge(penalty=0.25), new) == pytest.approx(0.34, abs=0.05)


def test_logistic_is_that_of_scikit_learn(prompt: Prompt) -> None:
    xs, ys = prompt

    def theirs(b: int, i: int, penalty: float) -> Tensor:
        model = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-10, max_iter=10_000)
        return torch.from_numpy(model.fit(xs[b, :i], ys[b, :i] > 0).coef_[0])

    for penalty in (1e-3, 0.1, 3.0):
        ours = LogisticPredictor(penalty=penalty).weights(xs, ys)
        for b in range(4):
            for i in range(1, 13):
                if 0 < int((ys[b, :i] > 0).sum()) < i:  # theirs wants both classes
                    assert torch.allclose(ours[b, i], theirs(b, i, penalty), atol=1e-4)
    assert not torch.allclose(ours[0, 12], theirs(0, 12, 2.0), atol=1e-2)


def test_logistic_is_stationary_even_if_classes_are_apart(prompt: Prompt) -> None:
    """The gradient in float64, with a small penalty and large inputs, where plain Newton steps overshoot."""
    xs, ys = 100 * prompt[0], prompt[1].sign()
    w = LogisticPredictor(penalty=1e-4).weights(xs, ys)
    for i in range(13):
        signed = xs[:, :i] * ys[:, :i, None]
        miss = torch.sigmoid(-(signed @ w[:, i, :, None]))
        assert (1e-4 * w[:, i] - (signed * miss).sum(1)).abs().max() < 1e-3


def test_labels_of_both_conventions_are_the_same_classes(prompt: Prompt) -> None:
    xs, ys = prompt
    classes = (ys > 0).double()
    assert torch.equal(LogisticPredictor().weights(xs, classes), LogisticPredictor().weights(xs, 2 * classes - 1))


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_the_tree_is_that_of_scikit_learn(depth: int, signs: bool) -> None:
    """On prefixes of at least 40 examples with at least 5 in a leaf: with fewer, splits tie, and scikit-learn chooses
    at random."""
    draw = Draw(11, 0, 3, dtype=torch.float64)
    xs = draw.normal(60, 6)
    ys = torch.where(xs[..., 0] > 0.2, xs[..., 1].sign(), 2 * (xs[..., 2] > -0.3)) + 0.3 * draw.normal(60)
    ours = RegressionTree(depth=depth, leaf=5, signs=signs).predict_prefixes(xs, ys)
    seen = xs.sign() if signs else xs

    def theirs(b: int, i: int, depth: int) -> float:
        if depth == 0:
            return float(ys[b, :i].mean())
        model = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=5, random_state=0)
        return float(model.fit(seen[b, :i].numpy(), ys[b, :i].numpy()).predict(seen[b, i : i + 1].numpy())[0])

    for b in range(3):
        for i in range(40, 60):
            assert abs(theirs(b, i, depth) - float(ours[b, i])) < 1e-6
    wrong = [abs(theirs(b, i, depth + 1) - float(ours[b, i])) for b in range(3) for i in range(40, 60)]
    assert max(wrong) > 0.1


def test_the_tree_learns_a_tree() -> None:
    """Garg et al.'s trees of depth 2 on signs: learned exactly once every leaf was seen; not without the signs."""
    draw = Draw(12, 0, 16, dtype=torch.float64)
    xs, leaves = draw.normal(80, 4), draw.normal(4)
    ys = leaves.gather(1, 2 * (xs[..., 0] > 0).long() + (xs[..., 1] > 0).long())
    for signs, exact in ((True, True), (False, False)):
        error = (RegressionTree(depth=4, signs=signs).predict_prefixes(xs, ys) - ys)[:, 60:].abs()
        assert (bool(error.max() < 1e-12)) == exact
    constant = RegressionTree().predict_prefixes(xs, torch.full_like(ys, 0.1))
    assert torch.allclose(constant[:, 1:], torch.tensor(0.1, dtype=torch.float64))


def test_networks_are_independent_of_inputs_with_the_same_seed() -> None:
    """Normal numbers are made of the bits of uniform ones: with the same bits, squares of inputs would determine
    weights."""
    xs = Draw(0, 0, 400).normal(8, 4)
    first = Network(hidden=16, seed=0).start(xs)[0].flatten(1)
    squares = (xs.flatten(1)[:, :16].square() + xs.flatten(1)[:, 16:].square()).flatten()

    def known(weights: Tensor) -> float:
        return abs(torch.corrcoef(torch.stack([squares, weights[:, :16].flatten()]))[0, 1].item())

    assert known(first) < 0.05
    assert known(Draw(0, 0, 400).uniform(5, 16).flatten(1)) > 0.5


def test_the_network_is_torchs_own_training(prompt: Prompt) -> None:
    """Separate modules, autograd and torch's Adam from the same start, float64."""
    xs, ys = prompt
    network = Network(hidden=12, steps=30)
    ours = network.predict_prefixes(xs, ys)
    W, v, bias = network.start(xs)

    def theirs(b: int, i: int, steps: int) -> float:
        model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1)).double()
        start = (W[b, :-1].mT, W[b, -1], v[b], bias[b, 0])
        model.load_state_dict(dict(zip(model.state_dict(), start, strict=True)))
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        for _ in range(steps):
            optimizer.zero_grad()
            (model(xs[b, :i]).squeeze(-1) - ys[b, :i]).square().mean().backward()
            optimizer.step()
        return float(model(xs[b, i]).detach())

    for b, i in ((0, 1), (1, 5), (3, 12)):
        assert abs(theirs(b, i, 30) - float(ours[b, i])) < 1e-9
    assert abs(theirs(1, 5, 29) - float(ours[1, 5])) > 1e-4


def test_networks_do_not_depend_on_the_block_that_they_are_trained_in(
    monkeypatch: pytest.MonkeyPatch, prompt: Prompt
) -> None:
    whole = Network(hidden=8, steps=10).predict_prefixes(*prompt)
    monkeypatch.setattr("inweights.lab.predictors.network.TOGETHER", 7)
    assert torch.allclose(Network(hidden=8, steps=10).predict_prefixes(*prompt), whole, atol=1e-12)


def test_the_pretest_distinguishes_classes_from_numbers(prompt: Prompt) -> None:
    xs, ys = prompt
    mixed = ys.sign()
    mixed[:, 6] = 0.3
    result = PreTest().predict_prefixes(xs, mixed)
    logistic, squares = LogisticPredictor().predict_prefixes(xs, mixed), OLS().predict_prefixes(xs, mixed)
    assert torch.equal(result[:, :7], logistic[:, :7])
    assert torch.equal(result[:, 7:], squares[:, 7:])
    assert not torch.allclose(logistic[:, 7:], squares[:, 7:], atol=1e-2)
    other = PreTest(classes=(0.0, 0.3)).predict_prefixes(xs, mixed)
    assert torch.equal(other[:, 1:], squares[:, 1:])


@pytest.mark.parametrize("tree", [RegressionTree(depth=1), Nearest()])
def test_validation_is_its_loop(prompt: Prompt, tree: RegressionTree | Nearest) -> None:
    xs, ys = prompt
    among = (Zero(), Ridge(penalty=0.3), tree)
    asked = xs.flip(1)
    result = Validation(among=among, share=0.6).predict_prefixes(xs, ys, asked)

    def after(k: int, b: int, n: int, query: Tensor) -> float:
        x = torch.cat([xs[b, :n], query.unsqueeze(0)]).unsqueeze(0)
        y = torch.cat([ys[b, :n], torch.zeros(1)]).unsqueeze(0)
        return float(among[k].predict_prefixes(x, y)[0, -1])

    chosen = set()
    for b in range(4):
        for i in range(1, 13):
            n = -(-i * 6 // 10)
            errors = [sum((after(k, b, n, xs[b, j]) - float(ys[b, j])) ** 2 for j in range(n, i)) for k in range(3)]
            best = min(range(3), key=errors.__getitem__)
            chosen.add(best)
            assert abs(after(best, b, n, asked[b, i]) - float(result[b, i])) < 1e-10
    assert len(chosen) > 1


def test_validation_selects_the_penalty_for_the_noise() -> None:
    """Bai et al.'s experiment: 20 dimensions, 40 examples, w ~ N(0, I/20), noise 0.1 or 1. The better one of two
    penalties is chosen in more than 80 of 100 prompts."""
    among = (Ridge(penalty=0.2), Ridge(penalty=20.0))
    for noise, right in ((0.1, 0), (1.0, 1)):
        sample = Linear(dims=20, noise=noise * 20**0.5).sample(Draw(6, 0, 256), 41)
        ys = sample.ys / 20**0.5
        result = Validation(among=among).predict_prefixes(sample.xs, ys)[:, -1]
        half = torch.cat([sample.xs[:, :20], sample.xs[:, -1:]], 1), torch.cat([ys[:, :20], ys[:, -1:]], 1)
        answer = among[right].predict_prefixes(*half)[:, -1]
        assert torch.isclose(result, answer, atol=1e-5).float().mean() > 0.8
