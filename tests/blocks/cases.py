"""The cases that the registry generates: every layer kind × block kind × output control × part of the context."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from inweights.blocks import BLOCKS, LAYERS, ContextualBlock, absorb, make_block, without

N, WIDTH = 5, 16
PARTS: dict[str, list[int] | None] = {
    "first": [0],
    "last": [N - 1],
    "scattered": [1, 3],
    "random": torch.randperm(N, generator=torch.Generator().manual_seed(0))[:3].sort().values.tolist(),
    "all": None,
}
PAIRS = [pytest.param(layer, block, id=f"{layer}-{block}") for layer in LAYERS for block in BLOCKS]
CASES = [
    pytest.param(layer, block, part, output, id=f"{layer}-{block}-{part}-{output}")
    for layer in LAYERS
    for block, kind in BLOCKS.items()
    for part in PARTS
    for output in (kind.outputs or (None,))
]


class Case(NamedTuple):
    block: ContextualBlock
    context: Tensor
    query: Tensor


def make_case(layer: str, block: str, *, n: int = N, seed: int = 3, device: str = "cpu") -> Case:
    g = torch.Generator().manual_seed(seed)
    made = make_block(block, layer, width=WIDTH, seed=seed).to(device)
    context = LAYERS[layer].context(n, WIDTH, g)
    query = torch.randn(WIDTH, generator=g, dtype=torch.float64)
    return Case(made, context.to(device), query.to(device))


def is_visible(case: Case, part: list[int] | None) -> bool:
    """Whether the query attends to any token of the part: a window may end before it."""
    reach, n = case.block.layer.reach, len(without(case.context, None, case.block))
    return reach is None or any(i >= n - reach for i in (range(n) if part is None else part))


__all__ = ["BLOCKS", "CASES", "LAYERS", "PAIRS", "PARTS", "WIDTH", "Case", "N", "absorb", "is_visible", "make_case"]
