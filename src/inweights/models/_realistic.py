"""`deep`: a small model of any family with the depth and the parameters that trained checkpoints have.

Tiny models with Gaussian parameters lack the causes of failures on real ones: rounding errors that grow from block to
block, norm scales of 0 or 1,000, units that are never active, and a first token whose hidden states are a thousand
times those of the others (massive activations, Sun et al., arXiv 2402.17762).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Set

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._tiny import build, probe, tiny
from inweights.running import KeepFloat64, hooked, inputs, run

DEPTH = 12
SCALES = (0.01, 1000.0)
STREAM = 0.2
MASSIVE = 4000.0


def deep(model_type: str, seed: int = 0, layers: int = DEPTH) -> nn.Module:
    """A float64 model of a family with at least `layers` blocks and parameters distributed as in trained checkpoints.

    - Norm scales: log-normal, from 0.01 to 1,000, with zeros and negative values; from 0.4 to 4 in norms that the whole
      stream passes through, see `stream_norms`.
    - Matrices: heavy tails (Student's t with 4 degrees of freedom), some rows zero.
    - Biases: uneven, a few large ones; some of them so low that a ReLU behind them never opens.
    - Embeddings: tied to the head where the family has that choice; some thousands in two coordinates of the first
      token, and outliers in the same coordinates of all others.
    """
    try:
        model = build(model_type, seed, layers=layers, tied=True)
    except InputError:  # some families refuse to tie
        model = build(model_type, seed, layers=layers)
    draw(model, seed, stream_norms(model_type))
    return model


def draw(model: nn.Module, seed: int = 0, stream: Set[str] = frozenset()) -> None:
    """Draws all parameters of a model, as `deep` describes; `stream` as `stream_norms` returns it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for path, p in model.named_parameters():  # of tied parameters the first one: the embedding
            owner, _, name = path.rpartition(".")
            p.copy_(_drawn(model.get_submodule(owner), name, p, generator, _anywhere(owner) in stream))
        for table in _embeddings(model):
            _plant_outliers(table)


@functools.cache
def stream_norms(model_type: str) -> frozenset[str]:
    """The norms of each block that the whole stream passes through: paths, with `#` for numbers.

    In a block with its norm behind the sum (post-norm, as in BERT) no path bypasses the norm. A scale of 1,000 in one
    coordinate reduces all others to a thousandth there, and after some blocks the effect of the context is lost. No
    trained model has such scales: those of TabPFN v1, 12 post-norm blocks, are between 0.94 and 1.10.

    They are recognised by their effect: with zeros in place of the norm's output, the logits no longer depend on the
    tokens.
    """
    model = tiny(model_type)
    ids = probe()
    other = ids.flip(1) + 1
    order: dict[str, None] = {}

    def logits(ids: Tensor, zeroed: nn.Module | None = None) -> Tensor:
        hooks = [] if zeroed is None else [(zeroed, lambda m, a, k, out: torch.zeros_like(out))]
        with hooked(after=hooks), torch.no_grad(), KeepFloat64():
            return run(model, ids, last=1, **inputs(model, ids, None))

    norms = {name: m for name, m in model.named_modules() if _is_norm(m) and getattr(m, "weight", None) is not None}
    with hooked(after=[(m, lambda *_, name=name: order.setdefault(name)) for name, m in norms.items()]):
        logits(ids)
    cuts = Counter(_anywhere(k) for k in order if torch.equal(logits(ids, norms[k]), logits(other, norms[k])))
    return frozenset(name for name, times in cuts.items() if times > 1)


def _anywhere(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def _drawn(module: nn.Module, name: str, p: Tensor, generator: torch.Generator, on_stream: bool) -> Tensor:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=p.dtype)

    if p.ndim > 1:
        # Student's t with 4 degrees of freedom has variance 2.
        chi = normal(4, *p.shape).square().mean(0)
        W = normal(*p.shape) / chi.sqrt() / (2 * p.shape[-1]) ** 0.5
        dead = torch.rand(p.shape[-2], generator=generator) < 0.03
        # The rows of an embedding are tokens, and one that is zero has no hidden state to act on.
        return W if isinstance(module, nn.Embedding) else W.masked_fill(dead.unsqueeze(-1), 0.0)
    if p.ndim == 1 and name == "weight" and _is_norm(module):
        return _scales(p, generator, STREAM if on_stream else 1.0)
    if p.ndim == 1 and name == "bias":
        if on_stream:  # in TabPFN v1 at most 0.07
            return 0.1 * normal(len(p))
        b = 0.1 * normal(len(p)) / normal(len(p)).abs().clamp_min(0.1)
        W = getattr(module, "weight", p)
        widens = W.ndim == 2 and max(W.shape) == len(p) > min(W.shape)
        # A very negative bias closes the unit behind it: in the first matrix of an MLP.
        return b.masked_fill(torch.rand(len(p), generator=generator) < 0.05, -10.0) if widens else b
    return p + 0.3 * normal(*p.shape)


def _scales(p: Tensor, generator: torch.Generator, spread: float) -> Tensor:
    """Scales of a norm: log-normal around 1, one of them at each end of the range, one in 20 negative, one zero.

    The range is `SCALES` to the power of `spread`.

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
