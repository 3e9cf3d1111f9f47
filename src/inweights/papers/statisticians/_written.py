"""Transformers with ReLU attention whose weights are written by hand (Bai et al. 2023), in float64.

A token holds named coordinates. A layer adds `1/N Σ_j relu(h_iᵀ C h_j) O h_j` over all N tokens for each of its heads
`(C, O)`, and then `W₂ relu(W₁ h)`; there is no normalisation. Constants come from the coordinate `one`, which is always
1, and `known` is 1 for examples and 0 for the query, so that a head can ignore either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab.models import relu_mix

FAR = 1e4
"""More than any score: subtracted from the scores of tokens that a head ignores."""


@dataclass(frozen=True)
class Head:
    """A head: the comparison `C` of query and key, and the output `O` of a key, both `(width, width)`."""

    compare: Tensor
    out: Tensor


@dataclass(frozen=True)
class Layer:
    """Heads, then an MLP of ReLUs: `up` is `(hidden, width)` and `down` `(width, hidden)`; None for no MLP."""

    heads: Sequence[Head] = ()
    mlp: tuple[Tensor, Tensor] | None = None

    def __call__(self, h: Tensor) -> Tensor:
        """`(batch, tokens, width)` to the same shape."""
        if self.heads:
            compare, out = (torch.stack([getattr(head, name) for head in self.heads]) for name in ("compare", "out"))
            each = h.unsqueeze(1)  # (batch, 1, tokens, width): every head reads the same tokens
            h = h + relu_mix(each @ compare, each.expand(-1, len(compare), -1, -1), each @ out.mT).sum(1)
        if self.mlp is not None:
            up, down = self.mlp
            h = h + F.relu(h @ up.mT) @ down.mT
        return h


@dataclass(frozen=True)
class Places:
    """Coordinates of a token by name: `places["x"]` are rows of the identity, `(dims, width)`.

    `sizes` are those of further coordinates; `x`, `y`, `known`, `one` and `answer` are in every token.
    """

    dims: int
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def all_sizes(self) -> dict[str, int]:
        return {"x": self.dims, "y": 1, "known": 1, "one": 1, "answer": 1} | self.sizes

    @property
    def width(self) -> int:
        return sum(self.all_sizes.values())

    def __getitem__(self, name: str) -> Tensor:
        names = list(self.all_sizes)
        start = sum(self.all_sizes[n] for n in names[: names.index(name)])
        return torch.eye(self.width, dtype=torch.float64)[start : start + self.all_sizes[name]]

    def tokens(self, xs: Tensor, ys: Tensor, **given: Tensor) -> Tensor:
        """The tokens of prompts, `(batch, points, width)`; the last point is the query, and its label is unknown.
        `given` are further coordinates, `(batch, points, size)` or broadcastable to it."""
        known = torch.ones_like(ys)
        known[:, -1] = 0
        values = {"x": xs, "y": (ys * known).unsqueeze(-1), "known": known.unsqueeze(-1)} | given
        h = self["one"].expand(*ys.shape, -1).clone()
        for name, value in values.items():
            h = h + value.to(h) @ self[name]
        return h

    def forms(self, query: Tensor, key: Tensor) -> Tensor:
        """The comparison `Σ_k ⟨query_k, h_i⟩ ⟨key_k, h_j⟩` of rows `(k, width)`."""
        return query.mT @ key

    def ignoring(self, compare: Tensor, what: str) -> Tensor:
        """The same comparison, with scores below 0 for the `"query"` or for the `"examples"`."""
        hidden = self["one"] - self["known"] if what == "query" else self["known"]
        return compare - FAR * self.forms(self["one"], hidden)

    def both_signs(self, compare: Tensor, out: Tensor, ignore: str) -> list[Head]:
        """Two heads, which together add `1/N Σ_j (h_iᵀ C h_j) O h_j`: `relu(s) − relu(−s)` is `s`."""
        return [Head(self.ignoring(sign * compare, ignore), sign * out) for sign in (1, -1)]


def run(layers: Iterable[Layer], h: Tensor) -> Tensor:
    """The tokens after all layers."""
    for layer in layers:
        h = layer(h)
    return h


def squared_heads(at: Places, examples: int, rate: float) -> list[Head]:
    """A step of gradient descent on `1/(2n) Σ (⟨w, x⟩ − y)²` in the coordinates `w` of every token: two heads."""
    residual = at.forms(at["w"], at["x"]) - at.forms(at["one"], at["y"])
    return at.both_signs(residual, -rate * (examples + 1) / examples * at["w"].mT @ at["x"], "query")


def penalty_head(at: Places, size: float) -> Head:
    """Subtracts `size` times the weights, which all tokens share: their mean over all tokens."""
    return Head(at.forms(at["one"], at["one"]), -size * at["w"].mT @ at["w"])


def read_heads(at: Places, examples: int, weights: str, to: str) -> list[Head]:
    """Adds the product of the coordinates `weights` with the query's input to the coordinate `to` of the query."""
    product = at.forms(at[weights], at["x"])
    return at.both_signs(product, (examples + 1) * at[to].mT @ at["one"], "examples")


def soft_threshold(at: Places, size: float) -> tuple[Tensor, Tensor]:
    """The MLP that moves each of the weights towards 0 by `size`, and not beyond."""
    w, one = at["w"], at["one"]
    up = torch.cat([w - size * one, -w - size * one, w, -w])
    return up, torch.cat([w, -w, -w, w]).mT
