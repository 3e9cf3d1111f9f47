"""Encoders: examples and query attend to each other without order, and the prediction is read at the query."""

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

    The note uses torch's `TransformerEncoder` with dropout 0.1, which initialises all layers with the same weights;
    here each layer has its own initial weights, and there is no dropout. The architecture is the same.

    - `feedforward`: the ratio of the MLP's hidden width to the width.
    - `norm_first`: pre-norm, or else post-norm.
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
    """Bai et al. 2023: weights `relu(q·k) / N` instead of a softmax, and MLPs no wider than the residual stream."""

    size: str = "bai"
    feedforward: int = 1

    def build(self, task: Task, points: int) -> EncoderModel:
        need_numbers("relu-encoder", task)
        return EncoderModel(self, task.dims, task.outputs, relu_mix)


class EncoderModel(Learner):
    """Predicts the last point. Tokens have no positions: there may be any number of examples, in any order."""

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
            h = layer(h, last=i == len(self.layers))  # the last layer computes only the query
        return shaped_like(ys, self.read_out(h))
