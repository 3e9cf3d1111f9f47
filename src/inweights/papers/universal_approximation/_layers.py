"""A transformer whose layers are steps of the proximal gradient method for the Lasso, with weights set by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Features(nn.Module):
    """Universal features `relu(Ω x + b)`, drawn once and for all functions: `(..., dims)` → `(..., count)`."""

    def __init__(self, dims: int, count: int, random: torch.Generator) -> None:
        super().__init__()
        self.first = nn.Linear(dims, count, dtype=torch.float64)
        with torch.no_grad():
            self.first.weight.copy_(torch.randn(count, dims, generator=random, dtype=torch.float64))
            self.first.bias.copy_(torch.randn(count, generator=random, dtype=torch.float64))

    def forward(self, xs: Tensor) -> Tensor:
        return F.relu(self.first(xs))


class Head(nn.Module):
    """Linear attention of all tokens to the examples: adds `(1/n) Σ_i V e_i ⟨K e_i, Q e_j⟩` to token j.

    `K`, `Q` and `V` are `(·, width)`, and `V` is square.
    """

    def __init__(self, key: Tensor, query: Tensor, value: Tensor) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Parameter(matrix) for matrix in (key, query, value))

    def forward(self, tokens: Tensor, to: Tensor) -> Tensor:
        scores = (tokens @ self.query.mT) @ (to @ self.key.mT).mT
        return scores @ (to @ self.value.mT) / to.shape[-2]


class Threshold(nn.Module):
    """An MLP with ReLU units that replaces the weights w in a token by `sign(w) max(|w| − level, 0)`.

    What it adds is `relu(w − level) − relu(−w − level) − relu(w) + relu(−w)`: four units for each weight.
    """

    def __init__(self, width: int, place: slice, level: float) -> None:
        super().__init__()
        count = place.stop - place.start
        eye = torch.eye(width, dtype=torch.float64)[place]
        self.up = nn.Linear(width, 4 * count, dtype=torch.float64)
        self.down = nn.Linear(4 * count, width, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.up.weight.copy_(torch.cat([eye, -eye, eye, -eye]))
            self.up.bias.copy_(torch.tensor([-level, -level, 0, 0], dtype=torch.float64).repeat_interleave(count))
            self.down.weight.copy_(torch.cat([eye, -eye, -eye, eye]).mT)

    def forward(self, tokens: Tensor) -> Tensor:
        added: Tensor = self.down(F.relu(self.up(tokens)))
        return added


class LassoTransformer(nn.Module):
    """`forward`: `(batch, n + 1, dims)`, `(batch, n)` → the prediction for the last point, `(batch,)`.

    A token is `(φ(x), y, 1, w)`: features, label (0 for the query), a constant, and weights, at first 0. In every layer
    one head adds `rate · Φᵀy / n` to w, another subtracts `rate · ΦᵀΦ w / n`, and an MLP sets small weights to 0. The
    last layer attends from the query to itself, which gives `⟨φ, w⟩`. All layers have the same weights.

    - `thresholds`: without them the layers are steps of gradient descent.
    """

    def __init__(
        self, features: Features, layers: int, rate: float, penalty: float, *, thresholds: bool = True
    ) -> None:
        super().__init__()
        m = features.first.out_features
        width = 2 * m + 2
        self.features, self.layers, self.count = features, layers, m
        eye = torch.eye(width, dtype=torch.float64)
        phi, label, one, self.place = eye[:m], eye[m : m + 1], eye[m + 1 : m + 2], slice(m + 2, width)
        store = rate * eye[self.place].mT @ phi  # from φ to w
        self.heads = nn.ModuleList([Head(label, one, store), Head(phi, eye[self.place], -store)])
        self.mlp = Threshold(width, self.place, rate * penalty) if thresholds else None

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        phi = self.features(xs)
        tokens = torch.cat([phi, F.pad(ys, (0, 1)).unsqueeze(-1), torch.ones_like(phi[..., :1]), 0 * phi], -1)
        for _ in range(self.layers):
            examples = tokens[:, :-1]
            tokens = tokens + sum(head(tokens, examples) for head in self.heads)
            if self.mlp is not None:
                tokens = tokens + self.mlp(tokens)
        query = tokens[:, -1]
        return (query[..., : self.count] * query[..., self.place]).sum(-1)
