"""Flow matching: the path, the integrator, and a posterior that is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.lab import Draw
from inweights.lab.models import FlowPosterior
from inweights.lab.models._flow import OMEGA


class Exact(FlowPosterior):
    """The velocity that carries `N(0, 1)` to `N(mean, deviation²)` along the paths: known in closed form."""

    mean, deviation = 2.0, 0.3

    def velocity(self, seen: Tensor, z: Tensor, t: Tensor) -> Tensor:
        t = t.unsqueeze(-1)
        variance = (1 - OMEGA * t) ** 2 + (t * self.deviation) ** 2
        slope = (t * self.deviation**2 - OMEGA * (1 - OMEGA * t)) / variance
        return self.mean + slope * (z - t * self.mean)


def prompts(batch: int, points: int = 6, dims: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    xs, w = torch.randn(batch, points, dims), torch.randn(batch, dims)
    return xs, (xs @ w.unsqueeze(-1)).squeeze(-1) + 0.5 * torch.randn(batch, points), w


def test_the_integrator_is_of_fourth_order() -> None:
    flow = Exact(2, 1).double()
    xs, ys, _ = (t.double() for t in prompts(3))
    wanted = 2 + (0.3**2 + (1 - OMEGA) ** 2) ** 0.5 * Draw(5, 0, 3).normal(50, 1).double()
    errors = [
        (flow.sample(xs, ys, Draw(5, 0, 3), count=50, steps=steps) - wanted).abs().max().item() for steps in (16, 32)
    ]
    assert errors[1] < 1e-4
    assert errors[0] / errors[1] > 12


def test_the_exact_velocity_has_the_least_loss() -> None:
    """`Var(z1 − ω z0 | z_t)`, averaged over t, is what no velocity can explain; a shifted one explains less."""
    flow = Exact(2, 1)
    xs, ys, _ = prompts(2000)
    z1 = 2 + 0.3 * torch.randn(2000, 1)
    t = torch.linspace(0, 1, 10_001, dtype=torch.float64)
    least = (0.3**2 / ((1 - OMEGA * t) ** 2 + (0.3 * t) ** 2)).mean().item()
    assert flow.loss(xs, ys, z1, Draw(5, 0, 2000), copies=50).item() == pytest.approx(least, rel=0.03)
    flow.mean = 2.5
    assert flow.loss(xs, ys, z1, Draw(5, 0, 2000), copies=50).item() > 1.1 * least


def test_shapes_order_and_gradients() -> None:
    torch.manual_seed(0)
    flow = FlowPosterior(2, 3, outputs=4, width=16, heads=2)
    xs, ys = torch.randn(5, 6, 2), torch.randn(5, 6, 4)
    samples = flow.sample(xs, ys, Draw(5, 0, 5), count=7, steps=2)
    assert samples.shape == (5, 7, 3)
    turned = torch.randperm(6)
    torch.testing.assert_close(flow.sample(xs[:, turned], ys[:, turned], Draw(5, 0, 5), count=7, steps=2), samples)
    torch.testing.assert_close(flow.sample(xs, ys, Draw(5, 0, 5), count=7, steps=2), samples)
    flow.loss(xs, ys, torch.randn(5, 3), Draw(5, 0, 5), copies=2).backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in flow.parameters())


def test_samples_do_not_see_each_other() -> None:
    flow = FlowPosterior(2, 1, width=16, heads=2)
    xs, ys, _ = prompts(1)
    seen, z, t = flow.encode(xs, ys), torch.randn(1, 5, 1), torch.rand(1, 5)
    torch.testing.assert_close(flow.velocity(seen, z, t)[:, 2:], flow.velocity(seen, z[:, 2:], t[:, 2:]))


def test_heads_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match=r"^`width` is 18, but must be even and a multiple of the 4 heads\.$"):
        FlowPosterior(2, 1, width=18)


def test_training_comes_to_the_posterior() -> None:
    """One weight, prior and noise normal: the posterior is normal, with a known mean and deviation."""
    torch.manual_seed(0)
    flow, steps = FlowPosterior(1, 1, width=32, heads=2, layers=2), 300
    optimiser = torch.optim.Adam(flow.parameters())
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 3e-3 * (1 - step / steps)
        xs, ys, w = prompts(64, dims=1)
        optimiser.zero_grad()
        flow.loss(xs, ys, w, Draw(0, step, 64), copies=8).backward()
        optimiser.step()
    xs, ys, _ = prompts(100, dims=1)
    samples = flow.sample(xs, ys, Draw(1, 0, 100), count=100, steps=8).squeeze(-1)
    precision = 1 + xs.square().sum((1, 2)) / 0.25
    mean, deviation = (xs.squeeze(-1) * ys).sum(1) / 0.25 / precision, precision**-0.5
    assert ((samples.mean(1) - mean).abs() / deviation).mean() < 0.5
    assert 0.8 < (samples.std(1) / deviation).median() < 1.35
    # The controls: the prior, and the posterior of another prompt.
    assert (mean.abs() / deviation).mean() > 2
    assert ((samples.mean(1).roll(1) - mean).abs() / deviation).mean() > 2
