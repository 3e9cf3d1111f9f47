"""Emergence: is the ability to learn in context flat while the weights still move?

Training continues at a constant rate. Weights are compared by products that no rescaling of their factors changes:
`W_Q W_Kᵀ` and `W_V W_O` of each head.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import DecoderBlock, DecoderModel
from inweights.lab.training import Processes, Recipe, Run


@dataclass(frozen=True, eq=False)
class Stage:
    """A checkpoint: the steps so far, the squared error of the last query (in units of always answering 0), the
    products of each head, `(products, width, width)`, and those of the same function with its factors rescaled."""

    step: int
    error: float
    products: Tensor
    rescaled: Tensor


def head_products(model: DecoderModel) -> Tensor:
    """`W_Qᵀ W_K` and `W_O W_V` of every head of every layer, `(2 · layers · heads, width, width)`."""
    results = []
    for block in model.blocks:
        assert isinstance(block, DecoderBlock)
        q, k, v = (W.detach().double().chunk(block.heads) for W in block.qkv.weight.chunk(3))
        out = block.out.weight.detach().double().chunk(block.heads, 1)
        results += [a.mT @ b for a, b in zip(q, k, strict=True)]
        results += [a @ b for a, b in zip(out, v, strict=True)]
    return torch.stack(results)


def rescaled(model: DecoderModel, by: float = 3.0) -> DecoderModel:
    """Other weights for the same function: keys and values `by` times as large, queries and outputs as much smaller."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for block in other.blocks:
            assert isinstance(block, DecoderBlock)
            for part, factor in zip(block.qkv.weight.chunk(3), (1 / by, by, by), strict=True):
                part.mul_(factor)
            block.out.weight.div_(by)
    return other


def stages(
    recipe: Recipe, every: int, *, prompts: int = 256, after: Callable[[int], None] = lambda _: None
) -> list[Stage]:
    """Trains a decoder by a recipe and measures it each `every` steps, on prompts that training never uses."""
    run = Run(recipe, Processes("cpu"))
    model = run.model
    assert isinstance(model, DecoderModel)
    sample = run.task.sample(Draw(-1, 0, prompts), recipe.points)
    results = []
    for step in range(1, recipe.steps + 1):
        run.advance()
        after(step)
        if step % every == 0:
            with torch.no_grad():
                missed = (model(sample.xs, sample.ys)[:, -1] - sample.ys[:, -1]).square().mean()
            error = float(missed) / run.task.power
            results.append(Stage(step, error, head_products(model), head_products(rescaled(model))))
    return results


def movement(one: Tensor, other: Tensor) -> float:
    """How far the products of heads are apart, relative to the norm of the first: the mean over products."""
    apart = (other - one).flatten(1).norm(dim=1) / one.flatten(1).norm(dim=1)
    return float(apart.mean())
