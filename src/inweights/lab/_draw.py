"""Counter-based random numbers: each is a hash of its indices, so that any batch can be reproduced anywhere.

Unlike a generator with state, a hash gives random access. Row 7 of step 1,000 has the same numbers alone, in a batch of
any size, on any device (up to rounding), in any process of a cluster, and inside a CUDA graph, where the step is a
tensor. The hash is the finaliser of SplitMix64 (Steele, Lea and Flood 2014), applied once for each index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor


def _signed(value: int) -> int:
    """The 64 bits of `value` as a signed integer, as torch represents them."""
    value %= 2**64
    return value - 2**64 if value >= 2**63 else value


GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST, _SECOND = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def mix(x: Tensor) -> Tensor:
    """A bijection of 64 bits with good mixing. torch's right shifts copy the sign bit; the masks remove the copies."""
    x = (x ^ ((x >> 30) & (2**34 - 1))) * _FIRST
    x = (x ^ ((x >> 27) & (2**37 - 1))) * _SECOND
    return x ^ ((x >> 31) & (2**33 - 1))


def keyed(step: Tensor, rows: Tensor, salts: Tensor) -> Tensor:
    """A key for each row of a step; `()`, `(rows,)`, and `(…, 2)` of the seeds → `(…, rows)`."""
    return mix(rows * GOLDEN + mix(mix(step * GOLDEN + salts[..., 0]) + salts[..., 1]).unsqueeze(-1))


def hashed(keys: Tensor, index: Tensor) -> Tensor:
    """64 bits for each key and each index; `(rows,)`, `(count,)` → `(rows, count)`."""
    return mix(mix(keys).unsqueeze(1) + index * GOLDEN)


def gaussian(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Two standard normals from each 64 bits (Box and Muller); `(rows, count)` → `(rows, 2 count)`."""
    radius = (-2 * unit(bits, dtype).log()).sqrt()
    angle = unit(bits << 32, dtype) * (2 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()], 1)


def unit(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """The upper 32 bits as a number above 0 and at most 1."""
    return (((bits >> 32) & (2**32 - 1)).to(dtype) + 0.5) * 2.0**-32


PLAIN: tuple[Callable[..., Tensor], ...] = (keyed, hashed, gaussian)


@cache
def fused() -> tuple[Callable[..., Tensor], ...]:
    """The functions in `PLAIN`, each compiled to one kernel: a hundred small kernels take a tenth of a training step.

    They take indices as tensors: inductor compiles `arange * GOLDEN` as a 32-bit product, and fails.
    """
    return tuple(torch.compile(f, dynamic=False) for f in PLAIN)


class Draw:
    """Random numbers for the rows of one batch: functions of `(seed, step, row, number of earlier draws, index)`.

    - `seed`: any integer; or several, `(seeds,)` on the device: the rows of the first, then those of the second, and so
      on, each the same as alone.
    - `step`: an integer, or an integer tensor on the device.
    - `rows`: the number of rows, counted from `first`, so that processes can split a batch; or their indices `(rows,)`.
    - `compiled`: use compiled kernels, for a GPU that draws many batches of one shape.

    Every draw has shape `(rows, *shape)`.
    """

    def __init__(
        self,
        seed: int | Tensor,
        step: int | Tensor,
        rows: int | Tensor,
        *,
        first: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        self.device, self.dtype = torch.device(device), dtype
        at = step if isinstance(step, Tensor) else torch.full((), step, dtype=torch.int64, device=self.device)
        if isinstance(rows, int):
            rows = torch.arange(first, first + rows, dtype=torch.int64, device=self.device)
        keyed, self._hashed, self._gaussian = fused() if compiled else PLAIN
        if isinstance(seed, int):
            seed = torch.full((), _signed(seed), dtype=torch.int64, device=self.device)
        salts = torch.stack([seed, seed * 3 + 1], -1)  # products of integers are modulo 2^64
        self._draws, self._keys = 0, keyed(at, rows, salts).flatten()
        self.rows = len(self._keys)

    def bits(self, *shape: int) -> Tensor:
        """64 random bits each, as signed integers."""
        count = math.prod(shape)
        self._draws += 1
        index = torch.arange(count, dtype=torch.int64, device=self.device)
        keys = self._keys + _signed(self._draws * 0xD1342543DE82EF95)
        return self._hashed(keys, index).reshape(self.rows, *shape)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Uniform between `low` and `high`, which are reached only by rounding."""
        return unit(self.bits(*shape), self.dtype) * (high - low) + low

    def normal(self, *shape: int) -> Tensor:
        """Standard normal. Two numbers are made from each 64 bits: a smaller draw is not a prefix of a larger one."""
        count = math.prod(shape)
        pair = self._gaussian(self.bits((count + 1) // 2), self.dtype)
        return pair[:, :count].reshape(self.rows, *shape)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers from 0 to `high - 1`."""
        return ((self.bits(*shape) >> 32) & (2**32 - 1)) * high >> 32

    def bernoulli(self, p: float | Tensor, *shape: int) -> Tensor:
        """1 with probability `p` (a number, or a tensor that broadcasts against the draw), else 0."""
        return (self.uniform(*shape) < p).to(self.dtype)
