"""`ContextualLayer`: a layer that can read a vector alone or together with a context."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from inweights._errors import InputError


class ContextualLayer(nn.Module):
    """`A(C, x)`: the layer's output for the query `x` after the context `C`. `A(x)` is a layer output too.

    Subclasses give `forward`, which must accept any leading dimensions that broadcast, `keep=None`, and an empty
    context. `prefixes` and `suffixes` have a general form here, which runs one masked copy for each in a single
    batched pass; layers with more structure have faster ones.

    - `width`: the width of tokens and query.
    - `out`: the width of the output.
    - `reach`: how many positions back the query can see; `None` for all.
    """

    def __init__(self, width: int, out: int | None = None, reach: int | None = None) -> None:
        super().__init__()
        self.width = width
        self.out = out or width
        self.reach = reach

    def tokens(self, context: Tensor) -> Tensor:
        """The context as tokens `(..., n, width)`. It is so already, unless the context is an image."""
        return context

    def forward(self, tokens: Tensor, query: Tensor, keep: Tensor | None = None) -> Tensor:
        """`A(C∖Y, x)`.

        **Arguments:**

        - `tokens`: the context `C`, shape `(..., n, width)`.
        - `query`: `x`, shape `(..., width)`; it stands at position `n`, whatever is left out.
        - `keep`: which tokens are read, boolean, shape `(..., n)`; the others are `Y`. They are left out
          without moving the rest: positions stay absolute.

        **Returns:** shape `(..., out)`.
        """
        raise NotImplementedError

    def prefixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        """`A(x), A(c_1, x), …, A(c_1…c_n, x)` in one pass, shape `(..., n+1, out)`.

        Entry i is `self(tokens, query, keep)` with the first i tokens kept: the rest is masked, and the query stays
        at position n. For a layer that knows positions this is not `self(tokens[:i], query)`.
        """
        n = tokens.shape[-2]
        return self._packed(tokens, query, _staircase(n, tokens.device))

    def suffixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        """`A(c_1…c_n, x), A(c_2…c_n, x), …, A(x)` in one pass, shape `(..., n+1, out)`; masked in the same way."""
        n = tokens.shape[-2]
        return self._packed(tokens, query, ~_staircase(n, tokens.device))

    def sequence(self, tokens: Tensor) -> Tensor:
        """The layer's output at every position of a sequence, shape `(..., n, out)`."""
        raise NotImplementedError

    def _packed(self, tokens: Tensor, query: Tensor, keep: Tensor) -> Tensor:
        return self(tokens.unsqueeze(-3), query.unsqueeze(-2), keep)


def _staircase(n: int, device: torch.device) -> Tensor:
    """Row i keeps the first i of n tokens: shape `(n+1, n)`."""
    return torch.ones(n + 1, n, dtype=torch.bool, device=device).tril(-1)


def require_divisible(width: int, heads: int) -> int:
    """The width of one head."""
    if heads < 1 or width % heads:
        raise InputError(f"`heads` is {heads}, which does not divide the width {width}.")
    return width // heads
