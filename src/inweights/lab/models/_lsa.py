"""Self-attention over raw tokens, in which gradient descent can be written as explicit weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights._errors import Problems
from inweights.lab.models._forms import FORMS
from inweights.lab.models._learner import Learner
from inweights.lab.models._pairs import examples, shaped_like
from inweights.lab.models._settings import MODELS, Settings, at_least, need_numbers
from inweights.lab.tasks import Task


@MODELS("lsa")
@dataclass(frozen=True, kw_only=True)
class LSA(Settings):
    """Layers of linear self-attention: von Oswald et al. 2023, Ahn et al. 2023.

    - `tied`: whether all layers share their weights.
    - `form`: "factors" (von Oswald et al.), "products" or "sparse" (Ahn et al.); the latter two average over examples,
      as softmax does anyway. "steps": GD++ with learned step sizes.
    - `clip`: entries are clipped to ±`clip` after every layer; 0 for no clipping. Von Oswald et al. use 10 for more
      than three layers.
    """

    layers: int = 1
    heads: int = 1
    tied: bool = False
    form: str = "factors"
    clip: float = 0.0

    def check(self, problems: Problems) -> None:
        at_least(problems, 1, layers=self.layers, heads=self.heads)
        at_least(problems, 0, clip=self.clip)
        problems.unless(self.form in FORMS, f"`form` is {self.form!r}, but must be factors, products, sparse or steps.")

    def build(self, task: Task, points: int) -> LSAModel:
        need_numbers("lsa", task)
        return LSAModel(self, task.dims, task.outputs)


@MODELS("softmax")
@dataclass(frozen=True, kw_only=True)
class Softmax(LSA):
    """The same with softmax attention, of two heads by default."""

    heads: int = 2

    def build(self, task: Task, points: int) -> SoftmaxModel:
        need_numbers("softmax", task)
        return SoftmaxModel(self, task.dims, task.outputs)


class LSAModel(Learner):
    """`e_j ← e_j + Σ_h P_h V_h K_hᵀ q_{h,j}` for tokens `e = (x, y)`.

    Keys and values are computed from the examples only. The query is the token `(x, 0)`, and the prediction is minus
    its y-entry after the last layer: a layer of gradient descent subtracts predictions from the labels.

    - `form`: the weights, see `_forms`; those of one layer if they are tied.
    """

    causal, linear = False, True

    def __init__(self, settings: LSA, dims: int, outputs: int) -> None:
        super().__init__()
        self.layers, self.clip, self.dims, self.outputs = settings.layers, settings.clip, dims, outputs
        own = 1 if settings.tied else settings.layers
        self.form = FORMS[settings.form](own, settings.heads, dims, outputs, settings.layers)

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        out, compare = self.form.products()
        context, query = examples(xs, ys), F.pad(xs[:, -1:], (0, self.outputs))
        advance = self._by_moments if self.linear and not self.clip else self._by_tokens
        return shaped_like(ys, -advance(context, query, out, compare)[..., self.dims :])

    def _by_tokens(self, context: Tensor, query: Tensor, out: Tensor, compare: Tensor) -> Tensor:
        """The query after all layers."""
        n, tokens = context.shape[1], torch.cat([context, query], 1)
        for layer in range(self.layers):
            context = tokens[:, :n]
            if layer == self.layers - 1:
                tokens = tokens[:, -1:]  # only the query is needed in the last layer
            at = layer % len(out)
            tokens = tokens + self.read(context, tokens, out[at], compare[at])
            if self.clip:
                tokens = tokens.clamp(-self.clip, self.clip)
        return tokens

    def _by_moments(self, context: Tensor, query: Tensor, out: Tensor, compare: Tensor) -> Tensor:
        """The same for linear attention without a clip, where a layer multiplies all tokens of a prompt by one matrix:
        after the first layer the examples are needed in their second moments only."""
        seen = self._moments(context)
        for layer in range(self.layers):
            at = layer % len(out)
            acts = _acts(seen, out[at], compare[at])
            query = query + query @ acts.mT
            if layer < self.layers - 1:
                step = acts + torch.eye(acts.shape[-1], dtype=acts.dtype, device=acts.device)
                seen = step @ seen @ step.mT
        return query

    def read(self, context: Tensor, tokens: Tensor, out: Tensor, compare: Tensor) -> Tensor:
        """The sum of all heads' outputs for the tokens, `(batch, k, width)`; `out` and `compare` are
        `(heads, width, width)`.

        Without a softmax the sum over the examples can be computed first, as one small matrix.
        """
        return tokens @ _acts(self._moments(context), out, compare).mT

    def _moments(self, context: Tensor) -> Tensor:
        """The second moments of the examples, `(batch, width, width)`: sums, or means."""
        seen = context.mT @ context
        return seen / max(context.shape[1], 1) if self.form.averaged else seen


def _acts(seen: Tensor, out: Tensor, compare: Tensor) -> Tensor:
    """What a layer multiplies tokens by, the sum over heads, from the second moments: `(batch, width, width)`."""
    return (out @ seen.unsqueeze(1) @ compare).sum(1)


class SoftmaxModel(LSAModel):
    """The same with softmax attention. Its weights are positive and sum to 1, which adds an offset to the gradient; two
    heads can cancel it."""

    linear = False

    def read(self, context: Tensor, tokens: Tensor, out: Tensor, compare: Tensor) -> Tensor:
        query = tokens.unsqueeze(1) @ compare.mT  # (batch, heads, k, width)
        keys = context.unsqueeze(1).expand(-1, len(out), -1, -1)
        return (F.scaled_dot_product_attention(query, keys, keys) @ out.mT).sum(1)
