"""What a step does: its rate, its direction, and the average of the weights."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from inweights.lab.training import Recipe, changed, train
from inweights.lab.training._optimiser import orthogonal
from inweights.lab.training._processes import Processes
from inweights.lab.training._run import Run
from inweights.lab.training._schedule import active, rate

SETTINGS = ["steps=1000", "rate=0.5", "warmup=0.1", "cooldown=0.2"]


@pytest.mark.parametrize(
    ("schedule", "at"),
    [
        ("constant", {500: 1.0, 999: 1.0}),
        ("linear", {100: 1.0, 550: 0.5, 999: 1 - 899 / 900}),
        ("cosine", {100: 1.0, 325: (1 + math.sqrt(0.5)) / 2, 550: 0.5, 999: (1 + math.cos(math.pi * 899 / 900)) / 2}),
        ("trapezoid", {500: 1.0, 800: 1.0, 900: 0.5, 999: 1 / 200}),
    ],
)
def test_rates_have_their_closed_forms(small: Recipe, schedule: str, at: dict[int, float]) -> None:
    recipe = changed(small, [*SETTINGS, f"schedule={schedule}"])
    for step, share in ({0: 0.01, 49: 0.5, 99: 1.0} | at).items():
        assert rate(recipe, torch.tensor(step)).item() == pytest.approx(0.5 * share, rel=1e-9), step


def test_a_long_warm_up_is_linear_under_every_schedule(small: Recipe) -> None:
    for schedule in ("constant", "linear", "cosine"):
        recipe = changed(small, ["steps=1000", "rate=1.0", "warmup=0.6", f"schedule={schedule}"])
        assert rate(recipe, torch.tensor(59)).item() == pytest.approx(0.1)


def test_a_curriculum_goes_from_few_to_all(small: Recipe) -> None:
    recipe = changed(small, ["steps=1000", "curriculum.dims=2", "curriculum.points=3", "curriculum.share=0.4"])
    found = [tuple(int(v) for v in active(recipe, 5, torch.tensor(s))) for s in (0, 99, 100, 250, 399, 400, 999)]
    # Four sizes each, a hundred steps for each of them.
    assert found == [(2, 3), (2, 3), (3, 4), (4, 5), (5, 6), (5, 6), (5, 6)]
    assert tuple(int(v) for v in active(small, 5, torch.tensor(0))) == (5, 6)


@pytest.mark.parametrize("shape", [(3, 16, 48), (3, 48, 16), (1, 64, 16)])
def test_orthogonal_makes_singular_values_near_one(shape: tuple[int, ...]) -> None:
    G = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    found = torch.linalg.svdvals(orthogonal(G))
    assert 0.6 < found.min() <= found.max() < 1.3
    # The control: dividing by the norm alone leaves them small. The directions stay: UᵀXV is a positive diagonal.
    plain = torch.linalg.svdvals(G / G.norm(dim=(-2, -1), keepdim=True))
    assert plain.max() < 0.6
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    inner = U.mT @ orthogonal(G) @ Vh.mT
    assert (inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))).abs().max() < 1e-4
    assert inner.diagonal(dim1=-2, dim2=-1).min() > 0.6


def test_averaged_weights_are_those_of_a_plain_loop(small: Recipe, tmp_path: Path) -> None:
    run = Run(small, Processes("cpu"))
    mean = {n: p.detach().clone() for n, p in run.model.named_parameters()}
    for _ in range(small.steps):
        run.advance()
        mean = {n: mean[n] + (p.detach() - mean[n]) / 10 for n, p in run.model.named_parameters()}
    trained = train(changed(small, ["average=10"]), tmp_path).model
    for name, p in trained.named_parameters():
        torch.testing.assert_close(p.detach(), mean[name], rtol=1e-5, atol=1e-6)
    # The control: the last weights are not the average.
    assert any((p - mean[n]).abs().max() > 1e-4 for n, p in run.model.named_parameters())
