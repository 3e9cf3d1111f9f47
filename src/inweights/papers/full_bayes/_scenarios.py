"""Latent variable models: their priors, their likelihoods, and samples of their posteriors on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import Draw

EXAMPLES = 20


class Scenario(Protocol):
    """A model of data `(batch, examples, width)` given latent vectors `(batch, latents)`."""

    @property
    def latents(self) -> int: ...

    @property
    def width(self) -> int: ...

    def sample(self, draw: Draw) -> tuple[Tensor, Tensor]:
        """Latent vectors from the prior, and data."""
        ...

    def log_joint(self, z: Tensor, data: Tensor) -> Tensor:
        """The logarithm of the joint density, `(batch, count)`, of latent vectors `(batch, count, latents)`."""
        ...


@dataclass(frozen=True)
class Mixture:
    """Two components of equal weight and deviation 1 on a line; the latent variables are their means, from
    N(0, spread²). The posterior has two modes: the components can be exchanged."""

    spread: float = 3.0
    latents: int = 2
    width: int = 1

    def sample(self, draw: Draw) -> tuple[Tensor, Tensor]:
        z = self.spread * draw.normal(self.latents)
        which = draw.integers(self.latents, EXAMPLES)
        return z, (z.gather(1, which) + draw.normal(EXAMPLES)).unsqueeze(-1)

    def log_joint(self, z: Tensor, data: Tensor) -> Tensor:
        away = data.squeeze(-1).unsqueeze(1).unsqueeze(-1) - z.unsqueeze(2)  # (batch, count, examples, 2)
        likely = torch.logsumexp(-away.square() / 2, -1).sum(-1)
        return likely - (z / self.spread).square().sum(-1) / 2


@dataclass(frozen=True)
class Factors:
    """One factor: data `w f + noise` in three dimensions, `w` and `f` standard normal, noise of deviation ½. The latent
    variable is the loading `w`, with `f` integrated out; the posterior has two modes, ± w."""

    noise: float = 0.5
    latents: int = 3
    width: int = 3

    def sample(self, draw: Draw) -> tuple[Tensor, Tensor]:
        w = draw.normal(self.latents)
        factor = draw.normal(EXAMPLES, 1)
        return w, factor * w.unsqueeze(1) + self.noise * draw.normal(EXAMPLES, self.width)

    def log_joint(self, z: Tensor, data: Tensor) -> Tensor:
        n, variance = data.shape[1], self.noise**2
        size = z.square().sum(-1)
        # Sherman and Morrison: the inverse of `v I + w wᵀ` is `I/v − w wᵀ / (v (v + |w|²))`.
        along = (z @ data.mT).square().sum(-1) / (variance * (variance + size))
        return along / 2 - n / 2 * torch.log1p(size / variance) - size / 2


@dataclass(frozen=True)
class Regression:
    """Linear regression with unknown noise: coefficients from N(0, I), a variance from the inverse gamma (5, 2), inputs
    with correlation 0.9. Data are inputs and labels. The variance is latent too, as its logarithm."""

    latents: int = 3
    width: int = 3

    def sample(self, draw: Draw) -> tuple[Tensor, Tensor]:
        w, shared = draw.normal(2), draw.normal(EXAMPLES, 1)
        xs = 0.9**0.5 * shared + 0.1**0.5 * draw.normal(EXAMPLES, 2)
        # A gamma variable of shape 5 is the sum of five exponential ones.
        variance = 2 / -draw.uniform(5).log().sum(1, keepdim=True)
        ys = (xs @ w.unsqueeze(-1)).squeeze(-1) + variance.sqrt() * draw.normal(EXAMPLES)
        return torch.cat([w, variance.log()], 1), torch.cat([xs, ys.unsqueeze(-1)], -1)

    def log_joint(self, z: Tensor, data: Tensor) -> Tensor:
        w, log_variance = z[..., :2], z[..., 2]
        left = data[..., 2].unsqueeze(1) - w @ data[..., :2].mT
        likely = -left.square().sum(-1) / 2 * (-log_variance).exp() - data.shape[1] / 2 * log_variance
        return likely - w.square().sum(-1) / 2 - 5 * log_variance - 2 * (-log_variance).exp()


def on_grid(
    scenario: Scenario, data: Tensor, count: int, generator: torch.Generator, reach: float, cells: int
) -> Tensor:
    """Samples of the posterior of one data set, `(examples, width)`: `(count, latents)`. Cells of a grid from −reach to
    reach in each dimension, drawn by their density in the middle; a sample is uniform in its cell."""
    size = 2 * reach / cells
    line = -reach + size * (torch.arange(cells, dtype=torch.float64) + 0.5)
    grid = torch.cartesian_prod(*[line] * scenario.latents)
    logs = torch.cat(
        [scenario.log_joint(part.unsqueeze(0), data.double().unsqueeze(0))[0] for part in grid.split(2**16)]
    )
    chosen = torch.multinomial(logs.softmax(0), count, replacement=True, generator=generator)
    jitter = torch.rand(count, scenario.latents, generator=generator, dtype=torch.float64) - 0.5
    return grid[chosen] + size * jitter


def tril(raw: Tensor, diagonal: bool) -> Tensor:
    """A lower triangular matrix with a positive diagonal from any `(batch, k, k)`; diagonal if asked."""
    own = torch.diag_embed(F.softplus(raw.diagonal(dim1=-2, dim2=-1)))
    return own if diagonal else own + raw.tril(-1)
