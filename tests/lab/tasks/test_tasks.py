"""Properties of every task in the registry; each check has a control that fails it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import Draw
from inweights.lab.tasks import TASKS, Sample, Task

ROWS, POINTS = 6, 20
EVERY = list(TASKS)
# Where defaults would hide something in so few points, or take long.
SETTINGS: dict[str, dict[str, Any]] = {
    "dynamics": {"observed": 3},
    "linear": {"dims": 5, "noise": 0.3},
    "kernel": {"features": 32, "noise": 0.1},
    "repeats": {"shortest": 5, "longest": 9},
    "hetero": {"noise": 0.2},
    "scaled": {"noise": 0.5, "spread": 2.0},
    "pool": {"size": 4096},
}


def make(name: str) -> Task:
    return TASKS.make(name, **SETTINGS.get(name, {}))


def sample(name: str, *, seed: int = 5, step: int = 3, rows: int = ROWS, points: int = POINTS, **place: Any) -> Sample:
    return make(name).sample(Draw(seed, step, rows, **{"dtype": torch.float64, **place}), points)


def tensors(of: Sample) -> dict[str, Tensor]:
    return {"xs": of.xs, "ys": of.ys, **of.hidden}


@pytest.mark.parametrize("name", EVERY)
def test_a_place_has_one_batch(name: str) -> None:
    first, again = tensors(sample(name)), tensors(sample(name))
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert not torch.equal(first["ys"], sample(name, step=4).ys)
    assert not torch.equal(first["ys"], sample(name, seed=6).ys)
    at = Draw(5, torch.tensor(3), ROWS, dtype=torch.float64)
    assert torch.equal(first["ys"], make(name).sample(at, POINTS).ys)


@pytest.mark.parametrize("name", EVERY)
def test_a_row_does_not_depend_on_its_batch(name: str) -> None:
    """To rounding: a product of other size may add in another order."""
    many, one = tensors(sample(name)), tensors(sample(name, rows=1, first=4))
    for key, value in many.items():
        torch.testing.assert_close(value[4:5], one[key], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(many["ys"][3:4], one["ys"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", EVERY)
def test_shapes_and_types(name: str, dtype: torch.dtype) -> None:
    task, made = make(name), sample(name, dtype=dtype)
    if task.loss == "tokens":
        assert made.xs.shape == made.ys.shape == (ROWS, POINTS)
        assert made.xs.dtype == made.ys.dtype == torch.int64
        assert 0 <= made.xs.min() <= made.xs.max() < task.outputs
    else:
        assert made.xs.shape == (ROWS, POINTS, task.dims)
        assert made.ys.shape == ((ROWS, POINTS) if task.outputs == 1 else (ROWS, POINTS, task.outputs))
        assert all(value.dtype == dtype for value in tensors(made).values() if value.is_floating_point())
        assert made.xs.dtype == made.ys.dtype == dtype
    assert made.hidden["clean"].shape == made.ys.shape
    assert all(len(value) == ROWS and value.isfinite().all() for value in tensors(made).values())
    assert made.target is made.ys
    if task.loss == "logistic":
        assert set(made.ys.flatten().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("name", EVERY)
def test_single_precision_draws_the_same(name: str) -> None:
    """Not bit for bit; and a label at a threshold may fall on the other side."""
    small, large = sample(name, dtype=torch.float32), sample(name)
    near = (small.ys.double() - large.ys).abs() < 1e-3 * (1 + large.ys.abs())
    assert near.double().mean() > 0.98
    off = (small.ys.double() - sample(name, step=4).ys).abs() < 1e-3
    assert off.double().mean() < 0.9


@pytest.mark.parametrize("name", EVERY)
def test_a_curriculum_leaves_coordinates_out(name: str) -> None:
    task = make(name)
    if task.loss == "tokens":
        return
    active = max(1, task.dims // 2)
    draws = [Draw(5, 3, ROWS, dtype=torch.float64) for _ in range(2)]
    made = task.sample(draws[0], POINTS, active=active)
    assert (made.xs[:, :, active:] == 0).all()
    assert (made.xs[:, 1:, :active] != 0).all()
    assert made.ys.square().mean() > 0.01 * task.power
    assert torch.equal(made.xs, task.sample(draws[1], POINTS, active=torch.tensor(active)).xs)


def zero_loss(task: Task, made: Sample) -> Tensor:
    """The loss of answering 0, as a mean for each point that counts."""
    clean = made.hidden["clean"]
    if task.loss == "tokens":
        return F.cross_entropy(torch.zeros(clean.numel(), task.outputs).double(), clean.flatten(), reduction="none")
    if task.loss == "logistic":
        return F.binary_cross_entropy_with_logits(
            torch.zeros_like(made.ys), (made.ys > 0).to(made.ys), reduction="none"
        )
    if "outlier" in made.hidden:
        return clean[~made.hidden["outlier"]].square()
    # Systems begin at rest: their power is that of the long run.
    return clean[:, 40:].square() if "A" in made.hidden else clean.square()


@pytest.mark.parametrize("name", EVERY)
def test_the_power_is_the_loss_of_answering_zero(name: str) -> None:
    """Over 64 seeds with 64 prompts each, within 4 standard errors; a deviation of 30% is detected."""
    task = make(name)
    points = 60 if name == "dynamics" else 20 if name == "retrieval" else 8
    seeds = [zero_loss(task, sample(name, seed=seed, rows=64, points=points)).mean() for seed in range(64)]
    means = torch.stack(seeds)
    error = means.std() / math.sqrt(len(means)) + 1e-9
    assert (means.mean() - task.power).abs() < 4 * error
    assert (means.mean() - 1.3 * task.power).abs() > 4 * error


def dot(xs: Tensor, w: Tensor) -> Tensor:
    return torch.einsum("bpd,bd->bp", xs, w)


def linear(task: Task, s: Sample) -> Tensor:
    return dot(s.xs, s.hidden["w"])


def network(xs: Tensor, hidden: dict[str, Tensor]) -> Tensor:
    inner, outer = hidden["inner"], hidden["outer"]
    return torch.einsum("bph,bh->bp", torch.einsum("bpd,bdh->bph", xs, inner).clamp(min=0), outer) * math.sqrt(
        2 / outer.shape[1]
    )


def waves(task: Task, s: Sample) -> Tensor:
    angles = torch.einsum("bpd,bdf->bpf", s.xs, s.hidden["frequencies"]) + s.hidden["phases"][:, None]
    return torch.einsum("bpf,bf->bp", angles.cos(), s.hidden["weights"])


def tree(task: Task, s: Sample) -> Tensor:
    """One point at a time."""
    tests, leaves = s.hidden["tests"], s.hidden["leaves"]
    ys = torch.zeros_like(s.ys)
    for row in range(len(ys)):
        for point in range(ys.shape[1]):
            node = 0
            while node < tests.shape[1]:
                node = 2 * node + (2 if s.xs[row, point, tests[row, node]] > 0 else 1)
            ys[row, point] = leaves[row, node - tests.shape[1]]
    return ys


def outliers(task: Task, s: Sample) -> Tensor:
    return torch.where(s.hidden["outlier"], s.ys, dot(s.xs, s.hidden["w"]))


def repeated(task: Task, s: Sample) -> Tensor:
    ys = s.ys.clone()
    for row, begins in enumerate(s.hidden["begins"].tolist()):
        ys[row, begins - 1 :] = s.xs[row, : POINTS - begins + 1]
    return ys


def retrieved(task: Task, s: Sample) -> Tensor:
    return torch.stack([ys[source] for ys, source in zip(s.ys, s.hidden["source"], strict=True)])


LABELS: dict[str, Callable[[Task, Sample], Tensor]] = {
    **dict.fromkeys(["hetero", "linear", "mixed-noise", "noisy", "pool", "rotated", "skewed", "sparse"], linear),
    **dict.fromkeys(["conditioned", "scaled", "uniform"], linear),
    **dict.fromkeys(["many-outliers", "orthogonal-outliers"], outliers),
    "bernoulli": lambda task, s: s.hidden["p"][:, None].expand(ROWS, POINTS),
    "composition": lambda task, s: network(s.hidden["middle"], s.hidden),
    "dynamics": lambda task, s: torch.einsum("boi,bij,bpj->bpo", s.hidden["C"], s.hidden["A"], s.xs),
    "gaussian": lambda task, s: s.hidden["mean"][:, None].expand(ROWS, POINTS),
    "kernel": waves,
    "logistic": lambda task, s: 2 / (1 + (-linear(task, s)).exp()) - 1,
    "parity": lambda task, s: torch.stack([xs[:, c].prod(1) for xs, c in zip(s.xs, s.hidden["chosen"], strict=True)]),
    "quadratic": lambda task, s: dot(s.xs**2, s.hidden["w"]) / 3**0.5,
    "relu": lambda task, s: network(s.xs, s.hidden),
    "repeats": repeated,
    "retrieval": retrieved,
    "shuffled": lambda task, s: (s.xs * s.hidden["w"]).sum(-1),
    "sign": lambda task, s: linear(task, s).sign(),
    "several-outputs": lambda task, s: torch.einsum("bod,bpd->bpo", s.hidden["w"], s.xs),
    "sine": lambda task, s: s.hidden["amplitude"][:, None] * (s.xs[:, :, 0] + s.hidden["phase"][:, None]).sin(),
    "tree": tree,
}


@pytest.mark.parametrize("name", EVERY)
def test_labels_follow_from_what_is_hidden(name: str) -> None:
    task, made = make(name), sample(name)
    torch.testing.assert_close(LABELS[name](task, made), made.hidden["clean"], rtol=1e-10, atol=1e-10)
    # What is hidden of the neighbour does not explain them.
    kept = {"clean", "outlier"}
    swapped = {key: value if key in kept else value.roll(1, 0) for key, value in made.hidden.items()}
    assert not torch.allclose(LABELS[name](task, made._replace(hidden=swapped)).double(), made.hidden["clean"].double())


@pytest.mark.parametrize("name", EVERY)
def test_labels_are_clean_unless_there_is_noise(name: str) -> None:
    noisy = {"bernoulli", "dynamics", "gaussian", "hetero", "kernel", "linear", "logistic", "mixed-noise", "noisy"}
    made = sample(name)
    assert torch.equal(made.ys, made.hidden["clean"]) == (name not in noisy | {"pool", "scaled"})
