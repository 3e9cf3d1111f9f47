"""Inputs and labels as separate tokens: a first layer must copy each label to its input before gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights._errors import Problems
from inweights.lab.models._forms import Factors
from inweights.lab.models._learner import Learner
from inweights.lab.models._lsa import LSA, LSAModel, Softmax, SoftmaxModel
from inweights.lab.models._pairs import shaped_like, turns
from inweights.lab.models._settings import MODELS, Settings, at_least, need_numbers
from inweights.lab.tasks import Task


@MODELS("separate")
@dataclass(frozen=True, kw_only=True)
class Separate(Settings):
    """Two layers over tokens `x_1, y_1, x_2, …`: softmax attention, then linear: von Oswald et al. 2023, figure 5.

    - `waves`: the number of frequencies of the sinusoidal position encoding that each token contains.
    """

    waves: int = 5

    def check(self, problems: Problems) -> None:
        at_least(problems, 1, waves=self.waves)

    def build(self, task: Task, points: int) -> SeparateModel:
        need_numbers("separate", task)
        return SeparateModel(self, task.dims, task.outputs, points)


class SeparateModel(Learner):
    """Tokens are `(x, 0, position)` and `(0, y, position)`; the last is the query. The prediction is read as in an lsa.

    - `first`, `second`: the two layers, each with one head and its own weights.
    - `positions`: `(2 points − 1, 2 waves)`, fixed. A rotation maps each position to the next, and the last to the
      first.
    """

    causal = False
    positions: Tensor

    def __init__(self, settings: Separate, dims: int, outputs: int, points: int) -> None:
        super().__init__()
        self.dims, self.outputs, self.max_points = dims, outputs, points
        beside = outputs + 2 * settings.waves
        self.first = SoftmaxModel(Softmax(heads=1), dims, beside)
        self.second = LSAModel(LSA(), dims, beside)
        at = torch.arange(2 * points - 1).unsqueeze(1) * torch.arange(1, settings.waves + 1)
        angles = 2 * math.pi / len(at) * at.double()
        self.register_buffer("positions", torch.cat([angles.cos(), angles.sin()], 1).float(), persistent=False)

    def tokens(self, xs: Tensor, ys: Tensor) -> Tensor:
        """The tokens of a prompt, `(batch, 2 points − 1, dims + outputs + 2 waves)`."""
        record = turns(xs, ys)[:, :-1]
        at = self.positions[: record.shape[1]].to(record.dtype)
        return torch.cat([record, at.expand(len(record), -1, -1)], -1)

    def copied(self, tokens: Tensor) -> Tensor:
        """The output of the first layer, of the same shape as the tokens."""
        return tokens + self._read(self.first, tokens, tokens)

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        tokens = self.copied(self.tokens(xs, ys))
        query = tokens[:, -1:]
        answer = query + self._read(self.second, tokens, query)
        return shaped_like(ys, -answer[..., self.dims : self.dims + self.outputs])

    @staticmethod
    def _read(layer: LSAModel, context: Tensor, tokens: Tensor) -> Tensor:
        (out,), (compare,) = layer.form.products()
        return layer.read(context, tokens, out, compare)


def copy_construction(model: SeparateModel, eta: float, examples: int, sharpness: float = 60.0) -> SeparateModel:
    """Writes one step of gradient descent into a model with separate tokens for inputs and labels (Proposition 3).

    In the first layer a token attends to the next one and adds its label: `(x, 0)` becomes `(x, y)`. All other tokens
    add zeros. In the second layer tokens without an input have no weight, and the rest is Proposition 1.

    **Arguments:**

    - `eta`, `examples`: the step size, and N. `sharpness`: the margin of the attention logit of the next token.

    **Returns:** the model.
    """
    weight = next(model.parameters())
    dims, outputs, waves = model.dims, model.outputs, model.positions.shape[1] // 2
    width = dims + outputs + 2 * waves
    place = torch.arange(width, device=weight.device)
    is_input, is_label = (place < dims).to(weight), ((place >= dims) & (place < dims + outputs)).to(weight)
    step = 2 * math.pi / len(model.positions) * torch.arange(1, waves + 1, device=weight.device).to(weight)
    cos, sin = torch.diag(step.cos()), torch.diag(step.sin())
    turn = torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)])
    # Attention divides by the square root of the width.
    look = sharpness * width**0.5 * F.pad(turn, (dims + outputs, 0, dims + outputs, 0))
    _form(model.first).write(torch.diag(is_label), look)
    _form(model.second).write(torch.diag(-eta / examples * is_label), torch.diag(is_input))
    return model


def _form(layer: LSAModel) -> Factors:
    assert isinstance(layer.form, Factors)
    return layer.form
