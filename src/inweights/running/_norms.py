"""Root-mean-square norms as one kernel each. transformers writes them as eight, which is a fifth of a step on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from inweights.running._hooks import standing_in


@contextmanager
def fused_norms(net: nn.Module) -> Iterator[list[str]]:
    """While active, the root-mean-square norms of the model are computed in their fused form; yields their names.

    Norms whose fused form has other results (kinds that add one to their weight, or scale after rounding) are left
    as they are.
    """
    norms = {name: module for name, module in net.named_modules() if _agrees(module)}
    with ExitStack() as stack:
        for module in norms.values():
            stack.enter_context(standing_in(module, partial(_fused, module)))
        yield list(norms)


def _fused(module: nn.Module, x: Tensor) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return rms_norm(x, weight.shape, weight, _eps(module))


def _eps(module: nn.Module) -> float | None:
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    return eps if isinstance(eps, float) else None


@torch.no_grad()
def _agrees(module: nn.Module) -> bool:
    """Whether the fused form has the same result, to four units of rounding."""
    weight = getattr(module, "weight", None)
    if not type(module).__name__.endswith("RMSNorm") or not isinstance(weight, Tensor) or _eps(module) is None:
        return False
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(4, *weight.shape, generator=generator) * 3).to(weight)
    try:
        own = module(x)
    except TypeError:  # it takes more than its input: a gate
        return False
    unit = torch.finfo(weight.dtype).eps
    return bool(torch.allclose(own, _fused(module, x), rtol=4 * unit, atol=4 * unit))
