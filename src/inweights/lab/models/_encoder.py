"""Encoders: the examples and the query attend to each other, in no order, and the answer is read at the query."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from inweights._errors import Problems
from inweights.lab.models._layer import Layer, Mix, relu_mix, softmax_mix
from inweights.lab.models._learner import Learner
from inweights.lab.models._pairs import examples, shaped_like
from inweights.lab.models._settings import MODELS, Sized, at_least, need_numbers
from inweights.lab.tasks import Task


@MODELS("encoder")
@dataclass(frozen=True, kw_only=True)
class Encoder(Sized):
    """The encoder of the seed note, section 8: 4 layers of 4 heads, 64 wide, post-norm, softmax attention.

    The seed takes torch's `TransformerEncoder` with dropout 0.1, whose layers all start from the same numbers; here
    each layer is drawn anew, and nothing is dropped. The function is the same.

    - `feedforward`: how many times wider the hidden layers are.
    - `norm_first`: whether each part reads after a norm (pre-norm), or what it adds to is normed (post-norm).
    """

    size: str = "seed"
    feedforward: int = 4
    norm_first: bool = False

    def check(self, problems: Problems) -> None:
        super().check(problems)
        at_least(problems, 1, feedforward=self.feedforward)

    def build(self, task: Task, points: int) -> EncoderModel:
        need_numbers("encoder", task)
        return EncoderModel(self, task.dims, task.outputs, softmax_mix)


@MODELS("relu-encoder")
@dataclass(frozen=True, kw_only=True)
class ReluEncoder(Encoder):
    """Bai et al. 2023: weights `relu(q·k) / N` instead of a softmax, and hidden layers no wider than the rest."""

    size: str = "bai"
    feedforward: int = 1

    def build(self, task: Task, points: int) -> EncoderModel:
        need_numbers("relu-encoder", task)
        return EncoderModel(self, task.dims, task.outputs, relu_mix)


class EncoderModel(Learner):
    """Answers for the last point. No token has a position: there may be any number of examples, in any order."""

    causal = False

    def __init__(self, settings: Encoder, dims: int, outputs: int, mix: Mix) -> None:
        super().__init__()
        layers, width, heads = settings.shape
        self.read_example = nn.Linear(dims + outputs, width)
        self.read_query = nn.Linear(dims, width)
        self.layers = nn.ModuleList(
            Layer(
                width,
                heads,
                settings.feedforward * width,
                mix=mix,
                norm_first=settings.norm_first,
            )
            for _ in range(layers)
        )
        self.read_out = nn.Linear(width, outputs)

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        h = torch.cat([self.read_example(examples(xs, ys)), self.read_query(xs[:, -1:])], 1)
        for i, layer in enumerate(self.layers, 1):
            h = layer(h, last=i == len(self.layers))  # after the last layer, the query alone is read
        return shaped_like(ys, self.read_out(h))
