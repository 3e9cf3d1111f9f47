"""Every kind of contextual layer and of block, by name. The tests of the theorem are made from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from inweights._errors import InputError, unknown
from inweights.blocks._attention import LinearAttention, PatchAttention, SoftmaxAttention
from inweights.blocks._block import ContextualBlock, Parallel, PostNorm, PreNorm, Residual, Sandwich
from inweights.blocks._layer import ContextualLayer
from inweights.blocks._linear_recurrent import GatedLinearRecurrence, SelectiveStateSpace
from inweights.blocks._mlp import Dense, Gated, Mixture
from inweights.blocks._pool import MeanPool
from inweights.blocks._recurrent import GRU, LSTM, ElmanRNN


def _random_tokens(n: int, width: int, generator: Generator) -> Tensor:
    return torch.randn(n, width, generator=generator, dtype=torch.float64)


def _random_image(n: int, width: int, generator: Generator) -> Tensor:
    """An image of n patches in one row."""
    return torch.randn(1, 4, 4 * n, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class LayerKind:
    """A kind of contextual layer.

    - `make`: a layer for tokens of a given width.
    - `context`: a random context of n tokens of a given width, float64.
    """

    make: Callable[[int], ContextualLayer]
    context: Callable[[int, int, Generator], Tensor] = _random_tokens


@dataclass(frozen=True)
class BlockKind:
    """A kind of block.

    - `make`: a block on a given layer, with a given number of hidden units.
    - `inputs`: how many matrices are input controls.
    - `outputs`: the output controls that apply, the preferred one first.
    """

    make: Callable[[ContextualLayer, int], ContextualBlock]
    inputs: int
    outputs: tuple[str, ...]


LAYERS: Mapping[str, LayerKind] = {
    "softmax": LayerKind(SoftmaxAttention),
    "softmax-bidirectional": LayerKind(lambda w: SoftmaxAttention(w, causal=False)),
    "softmax-absolute": LayerKind(lambda w: SoftmaxAttention(w, positions="absolute")),
    "softmax-rotary": LayerKind(lambda w: SoftmaxAttention(w, positions="rotary")),
    "linear-attention": LayerKind(LinearAttention),
    "sliding-window": LayerKind(lambda w: SoftmaxAttention(w, window=3)),
    "elman": LayerKind(ElmanRNN),
    "gru": LayerKind(GRU),
    "lstm": LayerKind(LSTM),
    "griffin": LayerKind(GatedLinearRecurrence),
    "mamba": LayerKind(SelectiveStateSpace),
    "mean-pool": LayerKind(MeanPool),
    "image-patches": LayerKind(PatchAttention, _random_image),
}

BLOCKS: Mapping[str, BlockKind] = {
    "plain": BlockKind(lambda a, h: ContextualBlock(a, Dense(a.out, h)), 1, ()),
    "residual": BlockKind(lambda a, h: Residual(a, Dense(a.out, h)), 1, ("matrix", "bias")),
    "pre-layernorm": BlockKind(lambda a, h: PreNorm(a, Dense(a.out, h), nn.LayerNorm), 1, ("matrix", "bias")),
    "pre-rmsnorm": BlockKind(lambda a, h: PreNorm(a, Dense(a.out, h), nn.RMSNorm), 1, ("matrix", "bias")),
    "post-norm": BlockKind(lambda a, h: PostNorm(a, Dense(a.out, h)), 1, ("matrix", "bias")),
    "sandwich": BlockKind(lambda a, h: Sandwich(a, Gated(a.out, h)), 2, ("scale",)),
    "gated": BlockKind(lambda a, h: PreNorm(a, Gated(a.out, h), nn.RMSNorm), 2, ("matrix",)),
    "mixture": BlockKind(lambda a, h: PreNorm(a, Mixture(a.out, h), nn.RMSNorm), 3, ("matrix",)),
    "parallel": BlockKind(lambda a, h: Parallel(a, Dense(a.out, h)), 0, ("matrix", "bias")),
}


def make_layer(name: str, width: int) -> ContextualLayer:
    """A contextual layer of the kind `name` for tokens `width` wide.

    **Example:**

    ```python
    import torch
    import inweights as iw

    layer = iw.make_layer("softmax", 8)
    print(layer(torch.randn(5, 8), torch.randn(8)).shape)
    # prints torch.Size([8])
    ```
    """
    if name not in LAYERS:
        raise unknown("layer", name, LAYERS)
    if not isinstance(width, int) or width < 1 or width % 8:
        raise InputError(f"`width` is {width!r}, but must be a positive multiple of 8: four heads of even width.")
    return LAYERS[name].make(width)


def make_block(
    name: str,
    layer: str | ContextualLayer = "softmax",
    *,
    width: int = 16,
    hidden: int | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> ContextualBlock:
    """A block of the kind `name` with every parameter random.

    Matrices have variance 1/fan-in; biases and the scales of norms are random as well, so that no
    parameter has no effect because it is zero or one. The same seed gives the same block.

    A `layer` of your own is used as it is: its weights stay, and `width` and `dtype` are its.

    **Example:**

    ```python
    import torch
    import inweights as iw

    block = iw.make_block("pre-rmsnorm", layer="linear-attention", width=8)
    print(block(torch.randn(5, 8).double(), torch.randn(8).double()).shape)
    # prints torch.Size([8])
    ```
    """
    if name not in BLOCKS:
        raise unknown("block", name, BLOCKS)
    if hidden is not None and hidden < 1:
        raise InputError(f"`hidden` is {hidden}, but must be at least 1.")
    own: set[int] = set()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(layer, ContextualLayer):
            own = {id(p) for p in layer.parameters()}
            dtype = next((p.dtype for p in layer.parameters()), dtype)
        else:
            layer = make_layer(layer, width)
        if name != "plain" and layer.out != layer.width:
            raise InputError(
                f"`layer` turns width {layer.width} into {layer.out}, but a {name!r} block adds the two: "
                "make them equal."
            )
        block = BLOCKS[name].make(layer, hidden or 4 * layer.out).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in block.parameters():
            if id(p) not in own:
                noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
                p.copy_(noise / p.shape[-1] ** 0.5 if p.ndim >= 2 else p.double() + 0.3 * noise)
    return block
