"""Attention as a contextual layer: softmax and linear, with heads, positions, windows, and image patches."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from inweights._errors import InputError, Problems
from inweights.blocks._layer import ContextualLayer, require_divisible
from inweights.blocks._scan import running_softmax

Positions = Literal["none", "absolute", "rotary"]


class SoftmaxAttention(ContextualLayer):
    """Multi-head softmax attention of the query over the context and itself.

    **Arguments:**

    - `width`, `out`: widths of the tokens and of the result.
    - `heads`, `head_width`: by default the heads share the width of the tokens.
    - `positions`: `"none"`, `"absolute"` (a learned vector for each position, added to the tokens) or
      `"rotary"` (queries and keys turned by an angle that grows with the position).
    - `limit`: how many positions there are to learn, for `"absolute"`.
    - `causal`: whether, in `sequence`, a token sees only those before it. The query sees all of its context.
    - `window`: how many positions the query sees, its own included; `None` for all.
    """

    def __init__(
        self,
        width: int,
        out: int | None = None,
        *,
        heads: int = 4,
        head_width: int | None = None,
        positions: Positions = "none",
        limit: int = 512,
        causal: bool = True,
        window: int | None = None,
    ) -> None:
        super().__init__(width, out, reach=None if window is None else window - 1)
        head_width = require_divisible(width, heads) if head_width is None else head_width
        problems = Problems()
        problems.unless(
            positions in ("none", "absolute", "rotary"),
            f"`positions` is {positions!r}, but must be 'none', 'absolute' or 'rotary'.",
        )
        problems.unless(
            positions != "rotary" or head_width % 2 == 0,
            f"Rotary positions turn pairs of numbers, but a head is {head_width} wide: make it even.",
        )
        problems.unless(window is None or window >= 1, f"`window` is {window}, but must be at least 1.")
        problems.stop()
        self.heads, self.head_width = heads, head_width
        self.positions, self.limit, self.causal, self.window = positions, limit, causal, window
        inner = heads * head_width
        self.q = nn.Linear(width, inner, bias=False)
        self.k = nn.Linear(width, inner, bias=False)
        self.v = nn.Linear(width, inner, bias=False)
        self.o = nn.Linear(inner, self.out, bias=False)
        if positions == "absolute":
            self.position = nn.Parameter(torch.randn(limit, width) / width**0.5)

    def forward(self, tokens: Tensor, query: Tensor, keep: Tensor | None = None) -> Tensor:
        scores, values = self._scores(tokens, query)
        if keep is not None:
            seen = torch.cat([keep, keep.new_ones(*keep.shape[:-1], 1)], -1)  # the query sees itself
            scores = scores.masked_fill(~seen.unsqueeze(-2), -torch.inf)
        return self._merge(self._mix(scores.unsqueeze(-2), values)).squeeze(-2)

    def prefixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        scores, values = self._scores(tokens, query)
        # The query comes first: it is in every prefix.
        return self._merge(self._running(scores.roll(1, -1), values.roll(1, -2)))

    def suffixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        scores, values = self._scores(tokens, query)
        # From the back: the query, then c_n, then c_{n−1}, …
        return self._merge(self._running(scores.flip(-1), values.flip(-2))).flip(-2)

    def sequence(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[-2]
        at = torch.arange(n, device=tokens.device)
        q, k, v = self._project(tokens, tokens, at, at)
        behind = at.unsqueeze(-1) - at  # how far each key lies behind each query
        seen = behind >= 0 if self.causal else torch.ones_like(behind, dtype=torch.bool)
        if self.window is not None:
            seen = seen & (behind.abs() < self.window)
        scores = (q @ k.mT / self.head_width**0.5).masked_fill(~seen, -torch.inf)
        return self._merge(self._mix(scores, v))

    # --- the parts of softmax attention; linear attention replaces these two --------------------------

    def _mix(self, scores: Tensor, values: Tensor) -> Tensor:
        """Values weighted by scores: `(..., heads, q, n)` and `(..., heads, n, w)` to `(..., heads, q, w)`."""
        return scores.softmax(-1) @ values

    def _running(self, scores: Tensor, values: Tensor) -> Tensor:
        """The same for one query and every prefix: `(..., heads, n)` and `(..., heads, n, w)`."""
        return running_softmax(scores, values)

    # --- common to both -----------------------------------------------------------------------------

    def _scores(self, tokens: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Scores `(..., heads, n+1)` and values `(..., heads, n+1, w)` of the context and then the query."""
        n = tokens.shape[-2]
        batch = torch.broadcast_shapes(tokens.shape[:-2], query.shape[:-1])
        x = query.unsqueeze(-2)
        at = torch.arange(n + 1, device=tokens.device)
        # Context and query are projected apart: packed copies of a query share one context.
        q, k_x, v_x = self._project(x, x, at[n:], at[n:])
        k_c, v_c = self._keys(tokens, at[:n])

        def behind(context: Tensor, own: Tensor) -> Tensor:
            return torch.cat([context.expand(*batch, *context.shape[-3:]), own.expand(*batch, *own.shape[-3:])], -2)

        scores = torch.cat([q @ k_c.mT, q @ k_x.mT], -1).squeeze(-2) / self.head_width**0.5
        if self.window is not None:
            scores = scores.masked_fill(at <= n - self.window, -torch.inf)
        return scores, behind(v_c, v_x)

    def _project(self, x: Tensor, tokens: Tensor, at_x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (self._turn(self._split(self.q(self._placed(x, at_x))), at_x), *self._keys(tokens, at))

    def _keys(self, tokens: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        placed = self._placed(tokens, at)
        return self._turn(self._split(self.k(placed)), at), self._split(self.v(placed))

    def _placed(self, tokens: Tensor, at: Tensor) -> Tensor:
        if self.positions != "absolute":
            return tokens
        if len(at) and int(at[-1]) >= self.limit:
            raise InputError(
                f"Position {int(at[-1])} is beyond the {self.limit} learned positions: shorten the context, "
                "or make the layer with a larger `limit`."
            )
        return tokens + self.position[at]

    def _turn(self, x: Tensor, at: Tensor) -> Tensor:
        if self.positions != "rotary":
            return x
        half = self.head_width // 2
        speed = 10_000.0 ** -(torch.arange(half, device=x.device, dtype=x.dtype) / half)
        angle = at.to(x.dtype).unsqueeze(-1) * speed  # (n, half)
        left, right = x[..., :half], x[..., half:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)

    def _split(self, x: Tensor) -> Tensor:
        """`(..., n, heads · w)` to `(..., heads, n, w)`."""
        return x.unflatten(-1, (self.heads, self.head_width)).transpose(-3, -2)

    def _merge(self, x: Tensor) -> Tensor:
        """`(..., heads, n, w)` to `(..., n, out)`."""
        return self.o(x.transpose(-3, -2).flatten(-2))


class LinearAttention(SoftmaxAttention):
    """Attention without softmax: `Σ_j (q·k_j) v_j`, the layer in which gradient descent can be written."""

    def _mix(self, scores: Tensor, values: Tensor) -> Tensor:
        return scores.masked_fill(scores == -torch.inf, 0.0) @ values

    def _running(self, scores: Tensor, values: Tensor) -> Tensor:
        return (scores.masked_fill(scores == -torch.inf, 0.0).unsqueeze(-1) * values).cumsum(-2)


class PatchAttention(SoftmaxAttention):
    """Softmax attention of a query over the patches of an image: the context is the image.

    The context has shape `(..., channels, height, width)`; it is cut into `patch × patch` squares, row by
    row, each a token with a learned position. Parts of the context are sets of patches.
    """

    def __init__(self, width: int, *, channels: int = 1, patch: int = 4, heads: int = 4, limit: int = 257) -> None:
        super().__init__(width, heads=heads, positions="absolute", limit=limit)
        self.channels, self.patch = channels, patch
        self.embed = nn.Linear(channels * patch * patch, width)

    def tokens(self, context: Tensor) -> Tensor:
        p, size = self.patch, tuple(context.shape)
        if context.ndim < 3 or size[-3] != self.channels or size[-2] % p or size[-1] % p:
            raise InputError(
                f"`context` has shape {size}, but must be an image (..., {self.channels}, height, width) "
                f"with sides that are multiples of {p}."
            )
        squares = context.unfold(-2, p, p).unfold(-2, p, p)  # (..., channels, rows, columns, p, p)
        return self.embed(squares.movedim(-5, -3).flatten(-3).flatten(-3, -2))
