"""How sparse the matrices of attention are: constructions of gradient descent need almost all entries to be zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models import Model

DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
NEEDED = {"keys": 0.9999, "queries": 0.9999, "values": 0.75}
"""Shares of zeros that the constructions need, by arXiv 2310.08540."""
Kind = Literal["queries", "keys", "values"]
KINDS: tuple[Kind, ...] = ("queries", "keys", "values")
_NAMES: dict[Kind, tuple[str, ...]] = {
    "queries": ("q_proj.weight",),
    "keys": ("k_proj.weight",),
    "values": ("v_proj.weight",),
}
_FUSED = ("in_proj_weight", "qkv.weight")
"""Matrices that hold queries, keys and values one below the other."""


def attention_matrices(net: nn.Module) -> dict[Kind, list[Tensor]]:
    """The matrices that make queries, keys and values, layer by layer, whether they are stored apart or in one."""
    results: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
    for name, p in net.named_parameters():
        if name.endswith(_FUSED):
            for kind, part in zip(KINDS, p.detach().chunk(3), strict=True):
                results[kind].append(part)
        for kind in KINDS:
            if name.endswith(_NAMES[kind]):
                results[kind].append(p.detach())
    if not all(results.values()):
        raise InputError("No matrices of queries, keys and values were found in this model by their names.")
    return results


def sparsity(matrices: Iterable[Tensor], *, relative: bool) -> Tensor:
    """The share of entries smaller than each of `DELTAS`, `(layers, deltas)`; `relative` to the standard deviation of
    each matrix, which does not depend on the scale of the weights."""
    rows = []
    for W in matrices:
        size = W.double().abs() / (W.double().std() if relative else 1.0)
        rows.append(torch.tensor([float((size < delta).double().mean()) for delta in DELTAS], dtype=torch.float64))
    return torch.stack(rows)


def gaussian_like(matrices: Iterable[Tensor], seed: int = 0) -> list[Tensor]:
    """Random matrices with the same deviations: what a network without any structure has."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(W.shape, generator=generator, dtype=torch.float64) * W.double().std().cpu() for W in matrices]


def weights_of(model: Model) -> dict[str, Any]:
    """The largest share of small entries in any layer, for each kind and threshold, beside that of random matrices with
    the same deviations and what constructions need; and whether the weights come from a quantised file, where such
    shares measure the quantiser."""
    about = {"quantised": quantised(model), "needed": NEEDED, "deltas": list(DELTAS)}
    try:
        matrices = attention_matrices(model.model)
    except InputError:  # stored in another way: no shares
        return about
    random = {kind: gaussian_like(own) for kind, own in matrices.items()}
    return about | {"shares": _largest(matrices), "random": _largest(random)}


def _largest(matrices: Mapping[Kind, Sequence[Tensor]]) -> dict[Kind, dict[str, list[float]]]:
    """The largest share in any layer, by kind, absolute and relative."""
    return {
        kind: {
            name: sparsity(own, relative=name == "relative").max(0).values.tolist() for name in ("absolute", "relative")
        }
        for kind, own in matrices.items()
    }


def quantised(model: Model) -> bool:
    """Whether the weights come from a quantised file, whose zeros are those of the quantiser."""
    return model.name == "smollm2" or model.name.endswith(".gguf")
