"""The decoder of most papers: GPT-2 blocks over prompts of vectors, without token embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import Problems
from inweights.lab.models._heads import keyless, merge, split
from inweights.lab.models._learner import Learner
from inweights.lab.models._pairs import pairs, shaped_like, turns
from inweights.lab.models._settings import MODELS, Sized, need_numbers
from inweights.lab.tasks import Task


@MODELS("decoder")
@dataclass(frozen=True, kw_only=True)
class Decoder(Sized):
    """Garg et al. 2022: causal, pre-norm, learned positions.

    - `tokens`: the number of tokens per point. `two`: the input is one token and its label the next, as in the paper.
      `one`: each token holds the last example and the next input, `(x_{i−1}, y_{i−1}, x_i)`: half the length, and the
      model need not learn which label belongs to which input.
    """

    tokens: str = "two"

    def check(self, problems: Problems) -> None:
        super().check(problems)
        problems.unless(self.tokens in ("one", "two"), f"`tokens` is {self.tokens!r}, but must be one or two.")

    def build(self, task: Task, points: int) -> Learner:
        need_numbers("decoder", task)
        return DecoderModel(self, task.dims, task.outputs, points)


class DecoderModel(Learner):
    """`forward`: `(batch, points, dims)`, `(batch, points)` → `(batch, points)`.

    With `at`, the index of a point as a tensor: the prediction `(batch, 1)` from the token of its input alone, at its
    own position but without a context.
    """

    def __init__(self, settings: Decoder, dims: int, outputs: int, points: int) -> None:
        super().__init__()
        self.layers, self.width, self.heads = settings.shape
        self.two, self.outputs, self.max_points = settings.tokens == "two", outputs, points
        self.read_in = nn.Linear(dims + outputs if self.two else 2 * dims + outputs, self.width)
        self.positions = nn.Parameter(torch.randn(2 * points if self.two else points, self.width) * 0.02)
        self.blocks = nn.ModuleList(DecoderBlock(self.width, self.heads, self.layers) for _ in range(self.layers))
        self.norm = nn.LayerNorm(self.width)
        self.read_out = nn.Linear(self.width, outputs)

    def enter(self, xs: Tensor, ys: Tensor) -> Tensor:
        """The residual stream before the first block: `(batch, tokens, width)`."""
        h: Tensor = self.read_in(turns(xs, ys) if self.two else pairs(xs, ys))
        return h + self.positions[: h.shape[1]]

    def inputs(self, h: Tensor) -> Tensor:
        """The states at the tokens of inputs, where predictions are read: `(batch, points, width)`."""
        return h[:, ::2] if self.two else h

    def forward(self, xs: Tensor, ys: Tensor, at: Tensor | None = None) -> Tensor:
        h = self.enter(xs, ys)
        if at is not None:
            h = self.inputs(h).index_select(1, at.reshape(1))
        for block in self.blocks:
            h = block(h)
        return shaped_like(ys, self.read_out(self.norm(h if at is not None else self.inputs(h))))


class DecoderBlock(nn.Module):
    """A pre-norm transformer block: attention, then an MLP."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for matrix in (self.qkv, self.up, self.out, self.down):
            nn.init.normal_(matrix.weight, std=0.02)
            nn.init.zeros_(matrix.bias)
        for matrix in (self.out, self.down):  # GPT-2: residual projections are initialised smaller in deeper models
            matrix.weight.data /= (2 * layers) ** 0.5

    def forward(self, h: Tensor) -> Tensor:
        h = self.attend(h)
        wide: Tensor = self.down(self.inner(self.norm2(h)))
        return h + wide

    def attend(self, h: Tensor) -> Tensor:
        """The residual stream between attention and MLP."""
        q, k, v = split(F.linear(self.norm1(h), self.qkv.weight, keyless(self.qkv.bias)), self.heads, 3)
        out: Tensor = self.out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return h + out

    def inner(self, z: Tensor) -> Tensor:
        """The input of the last matrix of the MLP."""
        return F.gelu(self.up(z), approximate="tanh")
