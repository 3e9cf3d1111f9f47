"""Causal attention-only transformers over tokens, in which induction heads form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import InputError, Problems
from inweights.lab.models._heads import merge, split
from inweights.lab.models._learner import Learner
from inweights.lab.models._settings import MODELS, Sized
from inweights.lab.tasks import Task


@MODELS("attention-only")
@dataclass(frozen=True, kw_only=True)
class AttentionOnly(Sized):
    """Elhage et al. 2021, Olsson et al. 2022. Two layers are the fewest in which an induction head can form.

    - `positions`: "learned" vectors are added to the tokens. With "shortformer" (Press et al. 2021) they are added only
      to the inputs of keys and queries, so that the values that heads copy do not contain them.
    """

    layers: int = 2
    positions: str = "learned"

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(
            self.positions in ("learned", "shortformer"),
            f"`positions` is {self.positions!r}, but must be learned or shortformer.",
        )

    def build(self, task: Task, points: int) -> AttentionOnlyModel:
        if task.loss != "tokens":
            raise InputError("The model attention-only reads tokens, but the task gives numbers: take the decoder.")
        return AttentionOnlyModel(self, task.outputs, points)


class AttentionOnlyModel(Learner):
    """Logits of the next token after every token: `(batch, points)`, integers, to `(batch, points, vocabulary)`."""

    def __init__(self, settings: AttentionOnly, vocabulary: int, points: int) -> None:
        super().__init__()
        layers, width, heads = settings.shape
        self.heads, self.off = heads, frozenset[tuple[int, int]]()
        self.max_points, self.shortformer = points, settings.positions == "shortformer"
        self.embedding = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        # Positions have the scale of what they are added to: normalised vectors, or token embeddings.
        self.positions = nn.Parameter((1.0 if self.shortformer else 0.02) * torch.randn(points, width))
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.read_out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, xs: Tensor, ys: Tensor | None = None) -> Tensor:
        """The logits. `ys` is ignored: each token is the label of the one before it."""
        return self.run(xs)

    @torch.no_grad()
    def patterns(self, xs: Tensor) -> Tensor:
        """The attention weights of every layer and head: `(batch, layers, heads, points, points)`."""
        patterns: list[Tensor] = []
        self.run(xs, patterns)
        return torch.stack(patterns, 1)

    def run(self, xs: Tensor, patterns: list[Tensor] | None = None) -> Tensor:
        """The logits. If a list is given, the attention weights of every layer are appended to it."""
        h, at = F.embedding(xs, self.embedding), self.positions[: xs.shape[1]]
        h, added = (h, at) if self.shortformer else (h + at, None)
        for i, layer in enumerate(self.layers):
            off = [head for where, head in self.off if where == i]
            h = h + layer(h, added, off, patterns)
        return self.read_out(self.norm(h))

    @contextmanager
    def ablated(self, *heads: tuple[int, int]) -> Iterator[AttentionOnlyModel]:
        """A context in which these heads, each `(layer, head)`, are ablated: their output is zero."""
        for layer, head in heads:
            if not (0 <= layer < len(self.layers) and 0 <= head < self.heads):
                raise InputError(
                    f"There is no head {head} in layer {layer}: there are {len(self.layers)} layers of {self.heads}."
                )
        was, self.off = self.off, self.off.union(heads)
        try:
            yield self
        finally:
            self.off = was


class Attention(nn.Module):
    """Pre-norm multi-head attention; returns what the heads add to the residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qk, self.v = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, h: Tensor, at: Tensor | None, off: list[int], patterns: list[Tensor] | None) -> Tensor:
        """`(batch, points, width)` to the same. Heads in `off` add nothing; `at` is added to the input of queries and
        keys."""
        h = self.norm(h)
        q, k = split(self.qk(h if at is None else h + at), self.heads, 2)
        (v,) = split(self.v(h), self.heads, 1)
        if patterns is not None:
            patterns.append(pattern(q, k))
        read = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if off:
            read = read.index_fill(1, torch.tensor(off, device=read.device), 0.0)
        return self.out(merge(read))


def pattern(q: Tensor, k: Tensor) -> Tensor:
    """Causal attention weights, `(batch, heads, points, points)`; row i has those of token i."""
    n = q.shape[-2]
    later = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
