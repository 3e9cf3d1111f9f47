"""Normal approximations of posteriors: variational inference, mean-field and of full rank, and Laplace's method."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from inweights.papers.full_bayes._scenarios import Scenario, tril

Normal = tuple[Tensor, Tensor]
"""A mean `(batch, k)`, and a lower triangular factor of the covariance, `(batch, k, k)`."""


def variational(
    scenario: Scenario, data: Tensor, start: Tensor, *, diagonal: bool, steps: int = 400, seed: int = 0
) -> Normal:
    """The normal distribution that maximises the evidence lower bound, by Adam with 16 samples for each step; with a
    diagonal covariance if asked (mean-field). `data` is `(batch, examples, width)`, `start` the first means."""
    generator = torch.Generator().manual_seed(seed)
    mean = start.double().clone().requires_grad_()
    raw = torch.diag_embed(torch.zeros_like(mean)).detach().requires_grad_()
    optimiser = torch.optim.Adam([mean, raw])
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - step / steps)
        noise = torch.randn(len(data), 16, mean.shape[1], generator=generator, dtype=torch.float64)
        factor = tril(raw, diagonal)
        z = mean.unsqueeze(1) + noise @ factor.mT
        entropy = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        loss = -(scenario.log_joint(z, data.double()).mean(1) + entropy).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return mean.detach(), tril(raw, diagonal).detach()


def laplace(scenario: Scenario, data: Tensor, start: Tensor, steps: int = 400) -> Normal:
    """The normal distribution around a mode with the curvature there as its precision."""
    mode = start.double().clone().requires_grad_()
    optimiser = torch.optim.Adam([mode])
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - step / steps)
        loss = -scenario.log_joint(mode.unsqueeze(1), data.double()).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def one(z: Tensor, own: Tensor) -> Tensor:
        return -scenario.log_joint(z[None, None], own[None])[0, 0]

    curvature = vmap(jacrev(jacrev(one)))(mode.detach(), data.double())
    values, vectors = torch.linalg.eigh(curvature)
    covariance = vectors @ torch.diag_embed(1 / values.clamp(min=1e-2)) @ vectors.mT  # a flat direction stays finite
    return mode.detach(), torch.linalg.cholesky(covariance)


def samples(normal: Normal, count: int, seed: int = 1) -> Tensor:
    """`(batch, count, k)`."""
    mean, factor = normal
    noise = torch.randn(
        len(mean), count, mean.shape[1], generator=torch.Generator().manual_seed(seed), dtype=mean.dtype
    )
    return mean.unsqueeze(1) + noise @ factor.mT
