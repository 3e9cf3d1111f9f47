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
    - `smeared`: each head mixes the key of a token with that of the token before it, in a ratio that it learns (Olsson
      et al. 2022), so that one layer is enough for an induction head.
    """

    layers: int = 2
    positions: str = "learned"
    smeared: bool = False

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
        self.layers = nn.ModuleList(Attention(width, heads, smeared=settings.smeared) for _ in range(layers))
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

    def run(self, xs: Tensor, patterns: list[Tensor] | None = None, fixed: Tensor | None = None) -> Tensor:
        """The logits. If a list is given, the attention weights of every layer are appended to it.

        With `fixed`, as `patterns` returns them, heads attend by these weights and not by their own: an ablation then
        changes what heads read, and not where.
        """
        h, at = F.embedding(xs, self.embedding), self.positions[: xs.shape[1]]
        h, added = (h, at) if self.shortformer else (h + at, None)
        for i, layer in enumerate(self.layers):
            off = [head for where, head in self.off if where == i]
            h = h + layer(h, added, off, patterns, None if fixed is None else fixed[:, i])
        return self.read_out(self.norm(h))

    def attention(self, layer: int) -> Attention:
        """A layer, with its type."""
        measured = self.layers[layer]
        assert isinstance(measured, Attention)
        return measured

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

    def __init__(self, width: int, heads: int, *, smeared: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qk, self.v = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        # The logit of a token's own share in its key. At 0, both tokens have the same share.
        self.smear = nn.Parameter(torch.zeros(heads)) if smeared else None

    def forward(
        self,
        h: Tensor,
        at: Tensor | None,
        off: list[int],
        patterns: list[Tensor] | None,
        fixed: Tensor | None = None,
    ) -> Tensor:
        """`(batch, points, width)` to the same. Heads in `off` add nothing; `at` is added to the input of queries and
        keys; `fixed` are attention weights `(batch, heads, points, points)` to use."""
        q, k = self.queries_and_keys(h, at)
        (v,) = split(self.v(self.norm(h)), self.heads, 1)
        if patterns is not None:
            patterns.append(pattern(q, k))
        read = F.scaled_dot_product_attention(q, k, v, is_causal=True) if fixed is None else fixed @ v
        if off:
            read = read.index_fill(1, torch.tensor(off, device=read.device), 0.0)
        return self.out(merge(read))

    def queries_and_keys(self, h: Tensor, at: Tensor | None) -> tuple[Tensor, Tensor]:
        """Both `(batch, heads, points, width / heads)`, of a residual stream."""
        h = self.norm(h)
        q, k = split(self.qk(h if at is None else h + at), self.heads, 2)
        if self.smear is not None:
            own = self.smear.sigmoid()[:, None, None]
            k = torch.cat([k[:, :, :1], own * k[:, :, 1:] + (1 - own) * k[:, :, :-1]], 2)
        return q, k

    def composed(self, queried: Tensor, keyed: Tensor, at: Tensor | None) -> Tensor:
        """The attention weights where queries read one residual stream and keys another, each
        `(batch, points, width)`: `(batch, heads, points, points)`."""
        return pattern(self.queries_and_keys(queried, at)[0], self.queries_and_keys(keyed, at)[1])

    def through(self, h: Tensor) -> Tensor:
        """What each head would add if it attended to one token alone: `(batch, points, width)` to
        `(batch, heads, points, width)`."""
        (v,) = split(self.v(self.norm(h)), self.heads, 1)
        return torch.einsum("bhnd,whd->bhnw", v, self.out.weight.unflatten(1, (self.heads, -1)))


def pattern(q: Tensor, k: Tensor) -> Tensor:
    """Causal attention weights, `(batch, heads, points, points)`; row i has those of token i."""
    n = q.shape[-2]
    later = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
