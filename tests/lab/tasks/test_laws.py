"""The distribution of each task, by statistics with fixed seeds or by recomputing; each with a control that fails."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.tasks import TASKS, Dynamics, Noisy, Pool, Rotated, Sample, Skewed
from inweights.lab.tasks._rotations import rotations
from inweights.lab.tasks.composition import FIRST, SECOND
from inweights.lab.tasks.dynamics import spectral_radius

# Some hundred laws are tested: p-values below this would mean that one does not hold, not bad luck.
LIKELY = 1e-5


def sample(name: str, rows: int, points: int, *, seed: int = 11, step: int = 0, **settings: object) -> Sample:
    return TASKS.make(name, **settings).sample(Draw(seed, step, rows, dtype=torch.float64), points)


def fits(values: Tensor, law: str, *args: float) -> bool:
    """Whether values fit a distribution of scipy, by the Kolmogorov-Smirnov test."""
    return bool(stats.kstest(values.flatten().numpy(), law, args).pvalue > LIKELY)


def even(counts: Tensor) -> bool:
    """Whether counts could be those of equally likely cells."""
    return bool(stats.chisquare(counts.numpy()).pvalue > LIKELY)


def covariance(vectors: Tensor) -> Tensor:
    flat = vectors.reshape(-1, vectors.shape[-1])
    return flat.T @ flat / len(flat)


def close(measured: Tensor, wanted: Tensor, within: float) -> bool:
    """Relative to the largest entry."""
    return bool((measured - wanted).abs().max() < within * wanted.abs().max())


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


def test_pools_are_fixed_and_can_be_left() -> None:
    task = Pool(size=16)
    pool = task.weights(dtype=torch.float64)
    assert pool.shape == (16, 8)
    for seed, step in ((1, 0), (1, 1), (-7, 0)):
        w = task.sample(Draw(seed, step, 800, dtype=torch.float64), 1).hidden["w"]
        which = (w[:, None] == pool).all(2)
        assert (which.sum(1) == 1).all()
        assert even(which.sum(0))
    fresh = Pool(size=16, fresh=True).sample(Draw(1, 0, 800, dtype=torch.float64), 1).hidden["w"]
    assert not (fresh[:, None] == pool).all(2).any()
    assert fits(fresh, "norm")
    assert fits(Pool(size=500).weights(dtype=torch.float64), "norm")
    assert not torch.equal(Pool(size=16, which=1).weights(dtype=torch.float64), pool)
    assert not torch.equal(Draw(0, 0, 16, dtype=torch.float64).normal(8), pool), "no prompts have these numbers"
    assert torch.equal(Pool(size=32).weights(dtype=torch.float64)[:16], pool), "larger pools hold the smaller ones"


def test_several_outputs_are_linear_with_normal_weights() -> None:
    """Each output has weights of its own; float64, 1e-12."""
    drawn = sample("several-outputs", 2000, 4, dims=3, components=2)
    w = drawn.hidden["w"]
    assert w.shape == (2000, 2, 3)
    assert fits(w, "norm")
    assert fits(drawn.xs, "uniform", -0.5, 1)
    torch.testing.assert_close(drawn.ys, torch.einsum("bod,bnd->bno", w, drawn.xs), rtol=0, atol=1e-12)
    assert close(covariance(w.flatten(1)), torch.eye(6, dtype=w.dtype), 0.15)
    assert drawn.ys.square().mean().item() == pytest.approx(TASKS.make("several-outputs", dims=3).power, rel=0.1)


def test_systems_have_their_spectral_radius_and_run() -> None:
    made = sample("dynamics", 200, 30, observed=2)
    step, seen = made.hidden["A"], made.hidden["C"]
    largest = torch.linalg.eigvals(step).abs().amax(1)
    assert (largest - 0.9).abs().max() < 1e-5
    assert (torch.linalg.matrix_norm(step, 2) - 0.9).abs().min() > 0.05, "norms are not radii"
    assert (made.xs[:, 0] == 0).all()
    noise = made.xs[:, 1:] - torch.einsum("bij,bpj->bpi", step, made.xs[:, :-1])
    assert fits(noise[:, :, :3], "norm", 0, 0.1)
    assert not fits(made.xs[:, 1:, :3], "norm", 0, 0.1)
    torch.testing.assert_close(torch.einsum("boi,bpi->bpo", seen, made.xs[:, 1:]), made.ys[:, :-1])
    assert fits(seen * math.sqrt(2), "norm")


def test_spectral_radii_are_accurate_in_single_precision() -> None:
    normal = Draw(0, 0, 300).normal(20, 20)
    assert (spectral_radius(normal) / torch.linalg.eigvals(normal).abs().amax(1) - 1).abs().max() < 1e-4
    assert spectral_radius(torch.tensor([[[0.0, -2.0], [2.0, 0.0]]])).item() == pytest.approx(2)


def test_the_power_of_systems_is_that_of_the_long_run() -> None:
    """Also for other settings; the shorter run of the papers stays below it."""
    task = Dynamics(dims=6, observed=2, radius=0.7, noise=0.5)
    clean = task.sample(Draw(0, 0, 4000, dtype=torch.float64), 30).hidden["clean"]
    assert clean[:, 20:].square().mean().item() == pytest.approx(task.power, rel=0.05)
    assert clean[:, :3].square().mean() < 0.8 * task.power


def test_exchangeable_sequences_do_not_depend_on_order() -> None:
    """All pairs of labels have the same mean product; in a chain neighbours have a larger one."""

    def uneven(ys: Tensor) -> bool:
        products = torch.stack([ys[:, 0] * ys[:, 1], ys[:, 0] * ys[:, 5], ys[:, 2] * ys[:, 4]], 1)
        apart = products - products.mean(1, keepdim=True)
        return bool((apart.mean(0).abs() > 4 * apart.std(0) / math.sqrt(len(ys))).any())

    for name in ("bernoulli", "gaussian"):
        made = sample(name, 10_000, 6)
        assert not uneven(made.ys)
        assert (made.xs == 1).all()
    steps = Draw(0, 0, 10_000, dtype=torch.float64).normal(6)
    assert uneven(steps.cumsum(1))


def test_bernoulli_sums_follow_the_rule_of_succession() -> None:
    """With an even prior all counts are equally likely; with a fixed probability they are not."""
    ys = sample("bernoulli", 5000, 6).ys
    assert even(ys.sum(1).long().bincount(minlength=7))
    fixed = Draw(0, 0, 5000).bernoulli(0.5, 6)
    assert not even(fixed.sum(1).long().bincount(minlength=7))


def test_gaussian_sequences_share_a_mean() -> None:
    ys = sample("gaussian", 20_000, 3, spread=2.0, noise=0.5).ys
    assert close(covariance(ys), 4 * torch.ones(3, 3).double() + 0.25 * torch.eye(3), 0.05)
    assert not close(covariance(ys), 4 * torch.eye(3).double(), 0.05)


def test_tokens_repeat_from_the_stated_point() -> None:
    made = sample("repeats", 300, 30, shortest=4, longest=12)
    begins = made.hidden["begins"]
    assert even((begins - 4).bincount(minlength=9))
    assert (made.xs[:, 1:] == made.ys[:, :-1]).all()
    early = 0
    for xs, ys, length in zip(made.xs.tolist(), made.ys.tolist(), begins.tolist(), strict=True):
        assert all(xs[i] == xs[i - length] for i in range(length, 30))
        assert all(ys[i] == xs[xs.index(xs[i], i - length) + 1] for i in range(length, 30))
        early += sum(xs[i] == xs[i - length + 1] for i in range(length - 1, 30))
    assert early < 0.1 * made.xs.numel(), "another distance does not repeat"
    assert even(made.xs[:, 0].bincount(minlength=64))


def test_parities_differ_between_prompts() -> None:
    made = sample("parity", 3000, 4)
    chosen = made.hidden["chosen"].sort(1).values
    assert set(made.xs.flatten().tolist()) == {-1.0, 1.0}
    pairs = (chosen[:, 0] * 10 + chosen[:, 1]).unique(return_counts=True)[1]
    assert len(pairs) == 45
    assert even(pairs)
    assert even(torch.tensor([(made.ys > 0).sum(), (made.ys < 0).sum()]))
    # One set for a whole batch, as in the paper's code, explains the first row and hardly another.
    shared = made.xs[:, :, chosen[0]].prod(2) == made.ys
    assert shared[0].all()
    assert shared.all(1).double().mean() < 0.2


def test_retrieval_asks_for_what_was_shown() -> None:
    made = sample("retrieval", 200, 24, dims=8)
    assert (made.xs.norm(dim=2) - math.sqrt(8)).abs().max() < 1e-12
    nearest = torch.einsum("bpd,bqd->bpq", made.xs[:, 16:], made.xs[:, :16]).argmax(2)
    assert torch.equal(nearest, made.hidden["source"][:, 16:])
    assert torch.equal(made.ys[:, 16:], made.ys.gather(1, nearest.unsqueeze(2).expand(-1, -1, 8)))
    assert even(nearest.flatten().bincount(minlength=16))
    apart = torch.einsum("bpd,bqd->bpq", made.xs[:, :16], made.ys[:, :16]) / 8
    assert abs(apart.mean()) < 0.01, "values say nothing about keys"


def test_outliers_lie_across_the_weights() -> None:
    made = sample("orthogonal-outliers", 500, 30)
    out, w = made.hidden["outlier"], made.hidden["w"]
    across = torch.einsum("bpd,bd->bp", made.xs, w)
    assert across[out].abs().max() < 1e-10
    assert across[~out].abs().median() > 1
    assert (made.xs[out].norm(dim=1) - math.sqrt(20)).abs().max() < 1e-10
    ranks = [int(torch.linalg.matrix_rank(xs[of])) for xs, of in zip(made.xs, out, strict=True) if of.sum() > 2]
    assert set(ranks) == {2}
    assert out.double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert made.ys[out].square().mean().item() == pytest.approx(1, abs=0.1)


def test_many_outliers_are_all_the_same() -> None:
    made = sample("many-outliers", 500, 30)
    out = made.hidden["outlier"]
    assert out.double().mean().item() == pytest.approx(0.9, abs=0.02)
    assert (made.xs[out] == 1).all()
    assert (made.ys[out] == 1).all()
    assert fits(made.xs[~out][:, 0], "norm")
    assert not fits(made.xs[:, :, 0], "norm")


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_the_power_of_compositions_is_known(first: str, second: str) -> None:
    task = TASKS.make("composition", first=first, second=second, dims=5)
    clean = task.sample(Draw(0, 0, 4000, dtype=torch.float64), 4).hidden["clean"]
    each = clean.square().mean(1)
    error = each.std() / math.sqrt(len(each))
    assert (each.mean() - task.power).abs() < 4 * error
    assert (each.mean() - 1.5 * task.power).abs() > 4 * error


def test_compositions_go_through_the_middle() -> None:
    made = sample("composition", 50, 30)
    middle = made.hidden["middle"]
    assert middle.shape == (50, 30, 4)
    assert middle.square().mean().item() == pytest.approx(1, abs=0.15)
    # The first task is linear: inputs explain the middle, but not what comes after it.
    for values, linear in ((middle, True), (made.ys.unsqueeze(2), False)):
        left = values - made.xs @ torch.linalg.lstsq(made.xs, values).solution
        assert (left.abs().max() < 1e-8) == linear
