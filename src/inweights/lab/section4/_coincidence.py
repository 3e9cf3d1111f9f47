"""The theorem and its dynamics on a batch of prompts, each with a control."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from inweights.blocks import ContextualBlock, absorb, without
from inweights.lab.section4._linear import Prompts
from inweights.lab.section4._one_block import predict
from inweights.theory import GradientPath, gradient_path

WEIGHT = "mlp.first.weight"
"""The matrix `W` of the theorem, in the one-block transformer."""


class Coincidence(NamedTuple):
    """The theorem on a batch of prompts.

    - `prompt_loss`: mean squared error of `T_W(C, x)`.
    - `weights_loss`: the same of `T_{W+ΔW}(x)`, the block's own forward on the query alone.
    - `difference`: the largest difference between the two predictions.
    - `control`: the median difference with a random rank-1 update of equal norm.
    """

    prompt_loss: float
    weights_loss: float
    difference: float
    control: float


def coincidence(block: ContextualBlock, prompts: Prompts, *, seed: int = 0) -> Coincidence:
    """Compares the block with the prompt to the block with changed weights and without the prompt."""
    context, query, target = prompts
    nothing = without(context)
    with torch.no_grad():
        changes = absorb(block, context, query)
        prompted = predict(block(context, query))
        patched = predict(changes.run(block, context, query, keep=nothing))
        wrong = predict(changes.random_like(seed).run(block, context, query, keep=nothing))
    return Coincidence(
        (prompted - target).square().mean().item(),
        (patched - target).square().mean().item(),
        (patched - prompted).abs().max().item(),
        (wrong - prompted).abs().median().item(),
    )


def implicit_path(block: ContextualBlock, prompts: Prompts) -> GradientPath:
    """The path `W_0 … W_n` of every prompt: Proposition 3.1."""
    with torch.no_grad():
        read = block.prefix_joints(prompts.context, prompts.query).read
        return gradient_path(block.get_parameter(WEIGHT), read, name=WEIGHT)


def decay_exponent(increments: Tensor) -> float:
    """The slope of `log ‖ΔW_i − ΔW_{i−1}‖` against `log i`, by least squares; `increments` is `(n,)`."""
    i = torch.arange(1, len(increments) + 1, dtype=torch.float64).log()
    y = increments.double().log()
    return (((i - i.mean()) * (y - y.mean())).sum() / (i - i.mean()).square().sum()).item()
