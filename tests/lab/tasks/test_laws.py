"""The distribution of each task, by statistics with fixed seeds or by recomputing; each with a control that fails."""

from __future__ import annotations

import math

import pytest
import torch
from laws import LIKELY, close, covariance, even, fits, sample
from scipy import stats
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.tasks import TASKS, Noisy, Rotated, Skewed
from inweights.lab.tasks._rotations import rotations


def test_rotations_are_even_over_all_rotations() -> None:
    made = rotations(Draw(0, 0, 4000, dtype=torch.float64), 3)
    assert (made @ made.mT - torch.eye(3)).abs().max() < 1e-12
    # An entry of an even rotation of space is even between −1 and 1 (Archimedes).
    for entry in (made[:, 0, 0], made[:, 2, 1], made[:, 1, 2]):
        assert fits(entry, "uniform", -1, 2)
    biased = torch.linalg.qr(torch.eye(3) + Draw(0, 0, 4000, dtype=torch.float64).normal(3, 3))[0]
    assert not fits(biased[:, 0, 0], "uniform", -1, 2)
    single = rotations(Draw(0, 0, 50), 20)
    assert (single @ single.mT - torch.eye(20)).abs().max() < 1e-5


def test_skewed_inputs_have_the_stated_covariance() -> None:
    task = Skewed(dims=4)
    told = task.covariance(dtype=torch.float64)
    wanted = torch.tensor([1, 1 / 4, 1 / 9, 1 / 16]).double()
    torch.testing.assert_close(torch.linalg.eigvalsh(told).flip(0), wanted * 4 / wanted.sum())
    for seed in (1, 2):
        measured = covariance(task.sample(Draw(seed, 0, 2000, dtype=torch.float64), 20).xs)
        assert close(measured, told, 0.05)
        assert not close(measured, torch.eye(4).double(), 0.05)
        assert not close(measured, Skewed(dims=4, which=1).covariance(dtype=torch.float64), 0.05)


def test_rotated_weights_have_the_inverse_covariance() -> None:
    task = Rotated()
    told = task.covariance(dtype=torch.float64)
    wanted = torch.tensor(sorted(task.eigenvalues)).double()
    torch.testing.assert_close(torch.linalg.eigvalsh(told), wanted)
    made = task.sample(Draw(1, 0, 40_000, dtype=torch.float64), 1)
    assert close(covariance(made.xs), told, 0.05)
    assert close(covariance(made.hidden["w"]), torch.linalg.inv(told), 0.05)
    assert not close(covariance(made.hidden["w"]), told, 0.05)


def test_uniform_inputs_are_uniform() -> None:
    xs = sample("uniform", 50, 20).xs
    assert fits(xs, "uniform", -0.5, 1)
    assert not fits(sample("uniform", 50, 20, width=1.1).xs, "uniform", -0.5, 1)


@pytest.mark.parametrize(
    ("name", "settings", "level"),
    [
        ("linear", {"noise": 0.3}, 0.3),
        ("noisy", {}, math.sqrt(20 / 21)),
        ("noisy", {"renormalise": False}, 1.0),
        ("pool", {}, 0.5),
        ("kernel", {"noise": 0.2, "features": 8}, 0.2),
        ("gaussian", {"noise": 0.7}, 0.7),
    ],
)
def test_noise_is_normal(name: str, settings: dict[str, object], level: float) -> None:
    made = sample(name, 400, 40, **settings)
    noise = made.ys - made.hidden["clean"]
    assert fits(noise, "norm", 0, level)
    assert not fits(noise, "norm", 0, 1.15 * level)


def test_renormalised_labels_have_the_scale_of_clean_ones() -> None:
    made = sample("noisy", 4000, 5, noise=3.0)
    assert abs(made.ys.square().mean() / 20 - 1) < 0.05
    assert abs(sample("noisy", 4000, 5, noise=3.0, renormalise=False).ys.square().mean() / 20 - 1) > 0.3
    assert Noisy(noise=3.0).level == pytest.approx(3 * math.sqrt(20 / 29))


def test_shuffled_labels_are_independent_of_the_query() -> None:
    """float64, 4,000 prompts: the gradient step of the examples does not correlate with the label; it does if all
    labels are of one function."""

    def correlation(name: str) -> float:
        s = sample(name, 4000, 11)
        step = (s.xs[:, :-1] * s.ys[:, :-1, None]).sum(1)
        return torch.corrcoef(torch.stack([(step * s.xs[:, -1]).sum(1), s.ys[:, -1]]))[0, 1].item()

    assert abs(correlation("shuffled")) < 4 / math.sqrt(4000)
    assert correlation("uniform") > 0.5


def test_hetero_weights_have_falling_variances() -> None:
    w = sample("hetero", 4000, 1, dims=3).hidden["w"]
    for i in range(3):
        assert fits(w[:, i], "norm", 0, 1 / (i + 1))
    assert not fits(w[:, 1], "norm", 0, 1)
    assert TASKS.make("hetero", dims=3).variances == pytest.approx((1, 1 / 4, 1 / 9))  # type: ignore[attr-defined]


def test_scaled_weights_have_the_spread_that_is_asked_for() -> None:
    made = sample("scaled", 4000, 3, dims=3, noise=0.5, spread=2.0)
    assert fits(made.hidden["w"], "norm", 0, 2)
    assert not fits(made.hidden["w"], "norm", 0, 1)
    assert fits(made.ys - made.hidden["clean"], "norm", 0, 0.5)  # the noise keeps its own


def test_every_prompt_has_one_of_the_noise_levels() -> None:
    made = sample("mixed-noise", 2000, 40)
    noise, level = made.ys - made.hidden["clean"], made.hidden["noise"]
    assert even(torch.tensor([(level == each).sum() for each in (0.1, 0.25, 0.5, 1.0)]))
    assert fits(noise / level[:, None], "norm")
    assert not fits(noise / level.roll(1)[:, None], "norm")
    assert fits(made.hidden["w"] * math.sqrt(20), "norm")


def test_sparse_weights_are_few_and_anywhere() -> None:
    w = sample("sparse", 3000, 2).hidden["w"]
    assert ((w != 0).sum(1) == 3).all()
    assert even((w != 0).sum(0))
    assert fits(w[w != 0], "norm")
    task = TASKS.make("sparse")
    curtailed = task.sample(Draw(1, 0, 3000), 2, active=5).hidden["w"]
    assert (curtailed[:, 5:] == 0).all()
    assert even((curtailed != 0).sum(0)[:5])
    assert not even((curtailed != 0).sum(0))


def test_trees_ask_and_answer_evenly() -> None:
    made = sample("tree", 500, 4)
    assert even(made.hidden["tests"].flatten().bincount(minlength=20))
    assert fits(made.hidden["leaves"], "norm")
    reached = (made.ys.unsqueeze(2) == made.hidden["leaves"].unsqueeze(1)).sum((0, 1))
    assert reached.sum() == made.ys.numel()
    assert (reached > 0).all()
    assert not even(made.hidden["tests"].clamp(min=1).flatten().bincount(minlength=20))


def test_waves_have_independent_amplitudes_and_phases() -> None:
    """The code of von Oswald et al. draws both with one key; a correlation would show it."""
    hidden = sample("sine", 2000, 1).hidden
    assert fits(hidden["amplitude"], "uniform", 0.1, 4.9)
    assert fits(hidden["phase"], "uniform", 0, math.pi)

    def dependent(a: Tensor, b: Tensor) -> bool:
        return bool(stats.pearsonr(a.numpy(), b.numpy()).pvalue < LIKELY)

    assert not dependent(hidden["amplitude"], hidden["phase"])
    shared = Draw(0, 0, 2000, dtype=torch.float64).uniform()
    assert dependent(0.1 + 4.9 * shared, math.pi * shared)


def test_kernel_functions_have_the_covariance_of_the_kernel() -> None:
    task = TASKS.make("kernel", dims=2, features=64)
    xs = torch.tensor([[0.0, 0.0], [0.5, 0.0], [1.0, 1.0], [-2.0, 1.0]]).double()
    ys, _ = task.labels(Draw(4, 0, 20_000, dtype=torch.float64), xs.expand(20_000, -1, -1))

    def kernel(length: float) -> Tensor:
        return (-torch.cdist(xs, xs).square() / (2 * length**2)).exp()

    assert close(covariance(ys), kernel(math.sqrt(2)), 0.04)
    assert not close(covariance(ys), kernel(1.0), 0.04)
    assert fits(ys[:2000, 0], "norm")
    few, _ = TASKS.make("kernel", dims=2, features=1).labels(
        Draw(4, 0, 2000, dtype=torch.float64), xs.expand(2000, -1, -1)
    )
    assert not fits(few[:, 0], "norm"), "one feature alone is not normal"


def test_logistic_labels_have_their_probabilities() -> None:
    made = sample("logistic", 4000, 5)
    excess = (made.ys - made.hidden["clean"]).flatten()
    logits = made.hidden["logits"].flatten()
    order = logits.argsort().view(10, -1)
    scores = excess[order].mean(1) / ((1 - made.hidden["clean"].flatten()[order] ** 2).mean(1) / order.shape[1]).sqrt()
    assert scores.square().sum() < stats.chi2.ppf(1 - LIKELY, 10)
    wrong = (made.ys - torch.tanh(made.hidden["logits"])).flatten()[order].mean(1)  # twice the logits
    assert wrong.abs().max() > 0.05
    assert abs(logits.square().mean() - 4) < 0.3


def test_signs_are_balanced() -> None:
    ys = sample("sign", 4000, 1).ys
    assert even(torch.tensor([(ys > 0).sum(), (ys < 0).sum()]))
