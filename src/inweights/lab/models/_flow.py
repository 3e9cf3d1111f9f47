"""Posteriors learned in context: samples of latent variables given a prompt, by flow matching (Reuter et al. 2025)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import InputError
from inweights.lab._draw import Draw
from inweights.lab.models._heads import merge, split
from inweights.lab.models._layer import Layer, softmax_mix
from inweights.lab.models._pairs import columns

OMEGA = 1 - 1e-4
"""The parameter of the path `ψ_t = (1 − ω t) z0 + t z1`: at time 1 noise of scale `1 − ω` is left."""


class FlowPosterior(nn.Module):
    """A set encoder over examples `(x, y)`, and a velocity field that transports noise to the posterior of a latent
    vector.

    All points of a prompt are examples: there is no query. Examples have no positions.

    **Arguments:**

    - `dims`, `outputs`: the widths of inputs and labels. `latents`: the width of the latent vector.
    - `layers`: the number of encoder layers. `looks`: the number of cross-attention layers of the velocity.
    """

    def __init__(
        self,
        dims: int,
        latents: int,
        *,
        outputs: int = 1,
        layers: int = 3,
        looks: int = 2,
        width: int = 64,
        heads: int = 4,
    ) -> None:
        super().__init__()
        if width % heads or width % 2:
            raise InputError(f"`width` is {width}, but must be even and a multiple of the {heads} heads.")
        self.latents = latents
        self.read_example = nn.Linear(dims + outputs, width)
        self.encoder = nn.ModuleList(
            Layer(width, heads, 2 * width, mix=softmax_mix, norm_first=True) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.read_latent = nn.Linear(latents, width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.looks = nn.ModuleList(Look(width, heads) for _ in range(looks))
        self.read_out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, latents))

    def encode(self, xs: Tensor, ys: Tensor) -> Tensor:
        """Encodes inputs `(batch, points, dims)` and labels as `(batch, points, width)`."""
        h = self.read_example(torch.cat([xs, columns(ys)], -1))
        for layer in self.encoder:
            h = layer(h)
        return self.norm(h)

    def velocity(self, seen: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """The velocity at `z`, `(batch, count, latents)`, and times `t`, `(batch, count)` or broadcastable to it.

        The `count` vectors do not interact.
        """
        h, at = self.read_latent(z), self.time(waves(t, seen.shape[-1]))
        for look in self.looks:
            h = look(h, seen, at)
        return self.read_out(h)

    def loss(self, xs: Tensor, ys: Tensor, z1: Tensor, draw: Draw, *, copies: int = 1) -> Tensor:
        """The mean squared error of the velocity on straight paths from noise to `z1`, `(batch, latents)`.

        - `copies`: the number of paths for each prompt; the encoder runs only once for them.
        """
        z1 = z1.unsqueeze(1)
        z0 = draw.normal(copies, self.latents).to(z1)
        t = draw.uniform(copies).to(z1)
        z = (1 - OMEGA * t.unsqueeze(-1)) * z0 + t.unsqueeze(-1) * z1
        return F.mse_loss(self.velocity(self.encode(xs, ys), z, t), z1 - OMEGA * z0)

    @torch.no_grad()
    def sample(self, xs: Tensor, ys: Tensor, draw: Draw, *, count: int = 1000, steps: int = 20) -> Tensor:
        """Samples for every prompt, `(batch, count, latents)`, by `steps` Runge-Kutta steps of fourth order."""
        seen = self.encode(xs, ys)
        z = draw.normal(count, self.latents).to(seen)
        size = 1 / steps

        def at(z: Tensor, t: float) -> Tensor:
            return self.velocity(seen, z, z.new_full((1, 1), t))

        for i in range(steps):
            t = i * size
            k1 = at(z, t)
            k2 = at(z + size / 2 * k1, t + size / 2)
            k3 = at(z + size / 2 * k2, t + size / 2)
            k4 = at(z + size * k3, t + size)
            z = z + size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return z


class Look(nn.Module):
    """Cross-attention to the examples, then an MLP; norms are scaled and shifted depending on the time."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulate = nn.Linear(width, 4 * width)
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h: Tensor, seen: Tensor, at: Tensor) -> Tensor:
        scale1, shift1, scale2, shift2 = self.modulate(at).chunk(4, -1)
        (q,) = split(self.q(self.norm1(h) * (1 + scale1) + shift1), self.heads, 1)
        k, v = split(self.kv(seen), self.heads, 2)
        h = h + self.out(merge(F.scaled_dot_product_attention(q, k, v)))
        wide: Tensor = self.down(F.gelu(self.up(self.norm2(h) * (1 + scale2) + shift2)))
        return h + wide


def waves(t: Tensor, width: int) -> Tensor:
    """Times as sines and cosines, `(...)` to `(..., width)`, of low frequency, as the path should be smooth."""
    cycles = 0.25 * 16 ** torch.linspace(0, 1, width // 2, device=t.device, dtype=t.dtype)
    angle = 2 * math.pi * t.unsqueeze(-1) * cycles
    return torch.cat([angle.sin(), angle.cos()], -1)
