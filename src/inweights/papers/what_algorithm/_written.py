"""A decoder with constructed, not learned, weights: one Sherman-Morrison update (Akyürek et al. 2023, appendix C).

Operations of a block on the numbers in a token, each in its own coordinates:

- move: softmax attention with scores for one position copies the numbers at that position;
- multiply: `gelu(εu) + gelu(−εu)` is `√(2/π) ε² u²` up to `ε⁴ u⁴`, and `4 f g = (f + g)² − (f − g)²`;
- add: `gelu(u) − gelu(−u)` is `u`;
- divide: a LayerNorm divides by the standard deviation of all coordinates. Two of them, the carriers, hold ± a number
  far larger than all others, which determines that standard deviation. While the carriers are constant, nothing
  changes; if they are multiplied by `s`, every number is read divided by `s`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from inweights.lab.models import Decoder, DecoderBlock, DecoderModel

BIG, SMALL, SHARP = 1e8, 1e-5, 100.0


class Written:
    """A decoder of two points in float64 with the named coordinates `places` in each token; all weights are 0 at
    first."""

    def __init__(self, dims: int, layers: int, places: dict[str, int]) -> None:
        sizes = {"x": dims, "y": 1, "one": 1, "zero": 1, "carriers": 2, "first": 1, "second": 1} | places
        ends = torch.tensor(list(sizes.values())).cumsum(0).tolist()
        self.width = ends[-1] + ends[-1] % 2
        self.eye = torch.eye(self.width, dtype=torch.float64)
        self.at = {name: self.eye[end - size : end] for (name, size), end in zip(sizes.items(), ends, strict=True)}
        self.model = DecoderModel(Decoder(layers=layers, width=self.width, heads=2), dims, 1, 2).double()
        self.used = [0] * layers
        for name, p in self.model.named_parameters():
            p.data.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        self.model.read_in.weight.data[:] = torch.cat([self.at["x"], self.at["y"]]).mT
        plus, minus = self.at["carriers"]
        self.carriers = plus - minus
        self.model.positions.data[:] = self.at["one"] + BIG * self.carriers
        for row, name in enumerate(("first", "second")):
            self.model.positions.data[row] += self.at[name][0]
        self.model.requires_grad_(False)

    def block(self, layer: int) -> DecoderBlock:
        result = self.model.blocks[layer]
        assert isinstance(result, DecoderBlock)
        return result

    def read(self, forms: Tensor) -> Tensor:
        """Weights that read linear forms of coordinates, `(k, width)`, after a LayerNorm: an empty coordinate holds its
        mean."""
        return BIG * (2 / self.width) ** 0.5 * (forms - forms.sum(1, keepdim=True) * self.at["zero"])

    def move(self, layer: int, head: int, position: str, forms: Tensor, to: Tensor) -> None:
        """Copies numbers of a token to all tokens after it."""
        block, size = self.block(layer), self.width // 2
        q, k, v = (slice(part * self.width + head * size, part * self.width + (head + 1) * size) for part in range(3))
        block.qkv.bias[q][0] = 1.0
        block.qkv.weight[k][:1] = SHARP * size**0.5 * self.read(self.at[position])
        block.qkv.weight[v][: len(forms)] = self.read(forms)
        block.out.weight[:, head * size : head * size + len(to)] = to.mT

    def multiply(self, layer: int, f: Tensor, g: Tensor, to: Tensor, size: float = 1.0) -> None:
        """Adds the products of forms `f` and `g`, `(k, width)` each, to coordinates `to`, `(k, width)`. They are
        accurate to about 1e-10 if forms are of about this `size`: larger ones suffer from nonlinearity, smaller ones
        from rounding."""
        small = SMALL / size
        squared = 4 * math.sqrt(2 / math.pi) * small**2
        for u, sign in ((f + g, 1), (f - g, -1)):
            for side in (small, -small):
                self._hidden(layer, side * u, sign * to / squared)

    def add(self, layer: int, f: Tensor, to: Tensor) -> None:
        """Adds linear forms to coordinates."""
        for side in (1, -1):
            self._hidden(layer, side * f, side * to)

    def _hidden(self, layer: int, forms: Tensor, to: Tensor) -> None:
        block, start = self.block(layer), self.used[layer]
        self.used[layer] = end = start + len(forms)
        block.up.weight[start:end] = self.read(forms)
        block.down.weight[:, start:end] = to.mT

    def answer(self, form: Tensor) -> DecoderModel:
        """The decoder that predicts this linear form of the coordinates."""
        self.model.read_out.weight.copy_(self.read(form))
        return self.model


def sherman_morrison(dims: int, penalty: float, *, divides: bool = True) -> DecoderModel:
    """Five layers, of width 2 dims² + O(dims), that predict the second point with the weights of ridge regression after
    the first. Without `divides`, the carriers stay constant."""
    d, square = dims, dims**2
    made = Written(d, 5, {"a": d, "b": 1, "P": square, "r": d, "m": 1, "D": square, "w": d, "answer": 1})
    at = made.at
    rows, columns = torch.arange(d).repeat_interleave(d), torch.arange(d).repeat(d)
    norm = at["P"][rows == columns].sum(0, keepdim=True)  # |x|², once P is computed
    # P = x xᵀ and r = x y of the example, at the query
    made.move(0, 0, "first", at["x"], at["a"])
    made.move(0, 1, "second", at["y"], at["b"])
    made.multiply(0, at["a"][rows], at["a"][columns], at["P"])
    made.multiply(0, at["a"], at["b"].expand(d, -1), at["r"])
    # The carriers are multiplied by s = 1 + |x|²/λ; m = |x|² s will be read as |x|², to undo that.
    made.add(1, norm, at["m"])
    made.multiply(1, norm / penalty**0.5, norm / penalty**0.5, at["m"], size=d / penalty**0.5)
    if divides:
        made.add(1, norm, BIG / penalty * made.carriers.unsqueeze(0))
        made.add(2, at["m"], -BIG / penalty * made.carriers.unsqueeze(0))
    made.add(2, at["P"], at["D"])  # read as P / s
    # w = (I/λ − D/λ²) r, and its product with the query
    inverse = at["one"] * (rows == columns).unsqueeze(1) / penalty - at["D"] / penalty**2
    made.multiply(3, inverse, at["r"][columns], at["w"][rows], size=1 / penalty)
    made.multiply(4, at["w"], at["x"], at["answer"].expand(d, -1))
    return made.answer(at["answer"])
