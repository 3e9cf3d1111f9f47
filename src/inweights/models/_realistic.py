"""`deep`: a small model of any family with the depth and the parameters that trained checkpoints have.

Tiny models with Gaussian parameters hide what breaks on real ones: rounding errors that grow from block to block, norm
scales of 0 or 1,000, units that are never active, and a first token whose hidden states are a thousand times those of
the others (massive activations, Sun et al., arXiv 2402.17762).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._tiny import build, probe

DEPTH = 12
SCALES = (0.01, 1000.0)
MASSIVE = 4000.0


def deep(model_type: str, seed: int = 0, spread: float = 1.0, layers: int = DEPTH) -> nn.Module:
    """A float64 model of a family with at least `layers` blocks and parameters distributed as in trained checkpoints.

    - Norm scales: log-normal, from 0.01 to 1,000 (to the power of `spread`), with zeros and negative values.
    - Matrices: heavy tails (Student's t with 4 degrees of freedom), some rows zero.
    - Biases: uneven, a few large ones; some of them so low that a ReLU behind them never opens.
    - Embeddings: tied to the head where the family has that choice; some thousands in two coordinates of the first
      token, and outliers in the same coordinates of all others.
    """
    try:
        model = build(model_type, seed, layers=layers, tied=True)
    except InputError:  # some families refuse to tie
        model = build(model_type, seed, layers=layers)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for path, p in model.named_parameters():  # of tied parameters the first one: the embedding
            owner, _, name = path.rpartition(".")
            p.copy_(_drawn(model.get_submodule(owner), name, p, generator, spread))
        for table in _embeddings(model):
            _plant_outliers(table)
    return model


def _drawn(module: nn.Module, name: str, p: Tensor, generator: torch.Generator, spread: float) -> Tensor:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=p.dtype)

    if p.ndim > 1:
        # Student's t with 4 degrees of freedom has variance 2.
        chi = normal(4, *p.shape).square().mean(0)
        W = normal(*p.shape) / chi.sqrt() / (2 * p.shape[-1]) ** 0.5
        dead = torch.rand(p.shape[-2], generator=generator) < 0.03
        # The rows of an embedding are tokens, and one that is zero has no hidden state to act on.
        return W if isinstance(module, nn.Embedding) else W.masked_fill(dead.unsqueeze(-1), 0.0)
    is_norm = "norm" in type(module).__name__.lower()
    if p.ndim == 1 and name == "weight" and is_norm:
        return _scales(p, generator, spread)
    if p.ndim == 1 and name == "bias":
        b = 0.1 * normal(len(p)) / normal(len(p)).abs().clamp_min(0.1)
        W = getattr(module, "weight", p)
        widens = W.ndim == 2 and max(W.shape) == len(p) > min(W.shape)
        # A very negative bias closes the unit behind it: in the first matrix of an MLP.
        return b.masked_fill(torch.rand(len(p), generator=generator) < 0.05, -10.0) if widens else b
    return p + 0.3 * normal(*p.shape)


def _scales(p: Tensor, generator: torch.Generator, spread: float) -> Tensor:
    """Scales of a norm: log-normal around 1, one of them at each end of the range, one in 20 negative, one zero.

    (A family that stores its scales less 1 has them shifted by 1: as in its checkpoints, where they are as uneven.)
    """
    low, high = (end**spread for end in SCALES)
    scale = (spread * torch.randn(p.shape, generator=generator, dtype=p.dtype)).exp().clamp(low, high)
    scale[torch.rand(p.shape, generator=generator) < 0.05] *= -1
    picks = torch.randperm(len(p), generator=generator)
    for place, value in zip(picks[:4].tolist(), (low, high, 0.0, -1.0), strict=False):
        scale[place] = value
    return scale


def _embeddings(model: nn.Module) -> Iterator[Tensor]:
    table = model.get_input_embeddings()  # type: ignore[operator]
    for module in table if isinstance(table, nn.ModuleList) else [table]:
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 2:
            yield weight


def _plant_outliers(table: Tensor) -> None:
    """Two coordinates in which all tokens are large, and the first one massive; `table` is `(vocabulary, width)`."""
    a, b = table.shape[-1] // 5, table.shape[-1] // 2
    table[:, [a, b]] *= 10
    first = int(probe()[0, 0])
    if len(table) > first:
        table[first, a], table[first, b] = MASSIVE, -MASSIVE / 2
