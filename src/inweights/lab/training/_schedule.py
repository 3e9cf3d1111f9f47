"""Schedules of learning rate and curriculum, computed as tensors on the device, as CUDA graphs require."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from inweights.lab.training._recipe import Recipe


def rate(recipe: Recipe, step: Tensor) -> Tensor:
    """The learning rate at a step, counted from 0: a linear warm-up, then the schedule of the recipe."""
    done = step.double() / recipe.steps
    after = ((done - recipe.warmup) / (1 - recipe.warmup)).clamp(min=0)
    shape = {
        "constant": lambda: torch.ones_like(done),
        "linear": lambda: 1 - after,
        "cosine": lambda: 0.5 * (1 + (math.pi * after).cos()),
        "trapezoid": lambda: ((1 - done) / recipe.cooldown).clamp(max=1),
    }[recipe.schedule]()
    rising = ((step.double() + 1) / max(recipe.warmup * recipe.steps, 1)).clamp(max=1)
    return recipe.rate * torch.minimum(rising, shape)


def active(recipe: Recipe, dims: int, step: Tensor) -> tuple[Tensor, Tensor]:
    """The number of dimensions and of points of a prompt at a step of the curriculum."""
    whole = torch.full_like(step, dims), torch.full_like(step, recipe.points)
    if recipe.curriculum is None:
        return whole
    done = (step.double() / (recipe.curriculum.share * recipe.steps)).clamp(max=1)

    def between(low: int, high: int) -> Tensor:
        return (low + ((high - low + 1) * done).floor()).clamp(max=high).long()

    return between(recipe.curriculum.dims, dims), between(recipe.curriculum.points or recipe.points, recipe.points)
