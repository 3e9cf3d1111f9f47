"""Scores of attention heads on repeated random tokens.

Patterns are attention weights `(batch, layers, heads, n, n)`, row i those of token i; scores are `(layers, heads)`. Two
common measures of prefix matching differ, and neither is called so without its name: `prefix_matching` is that of
Olsson et al., over all earlier copies; `stripe` is that of the demonstrations of TransformerLens, which reads one
diagonal, and so the copy one period earlier alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def repeated(choices: Tensor, length: int, copies: int, rows: int, generator: torch.Generator) -> Tensor:
    """Rows of `length` different tokens from `choices`, each row `copies` times: `(rows, copies · length)`."""
    drawn = [choices[torch.randperm(len(choices), generator=generator)[:length]] for _ in range(rows)]
    return torch.stack(drawn).repeat(1, copies)


def after_copies(tokens: Tensor) -> Tensor:
    """Where an induction head attends: true at `(i, j)` if the token before j is the token i; `(batch, n, n)`."""
    n = tokens.shape[1]
    same = tokens.unsqueeze(2) == tokens.unsqueeze(1)
    return same.roll(1, 2).tril() & (torch.arange(n, device=tokens.device) > 0)


def prefix_matching(patterns: Tensor, tokens: Tensor) -> Tensor:
    """The mean attention of a token, if it has occurred before, to the tokens that followed it then."""
    where = after_copies(tokens)
    seen = where.any(-1)[:, None, None]
    attended = (patterns * where[:, None, None]).sum(-1)
    return (attended * seen).sum((0, 3)) / seen.sum((0, 3))


def stripe(patterns: Tensor, length: int) -> Tensor:
    """The mean of the diagonal `length − 1` below the main one: attention one period back, and one token on."""
    return patterns.diagonal(1 - length, -2, -1).mean((0, 3))


def previous_token(patterns: Tensor) -> Tensor:
    """The mean attention to the token before."""
    return patterns.diagonal(-1, -2, -1).mean((0, 3))


def mostly_previous(patterns: Tensor) -> Tensor:
    """The share of tokens, from the third on, whose largest attention is to the token before."""
    n = patterns.shape[-1]
    before = torch.arange(1, n - 1, device=patterns.device)
    return (patterns[..., 2:, :].argmax(-1) == before).float().mean((0, 3))


def copying(raised: Tensor) -> Tensor:
    """How much of what a head raises is the token that it reads.

    `raised` is `(batch, heads, n, n)`: by how much a head that reads token j alone raises the logit of token k, all
    tokens being different. Less its mean over k, and where that is positive, the share of k = j; means `(heads,)`. Its
    range is 0 to 1, and 1/n for a head that has nothing to do with tokens; the paper maps a share onto −1 to 1.
    """
    positive = (raised - raised.mean(-1, keepdim=True)).clamp(min=0)
    own = positive.diagonal(0, -2, -1)
    return (own / positive.sum(-1).clamp(min=1e-30)).mean((0, 2))


def best(scores: Tensor) -> tuple[int, int]:
    """The layer and the head of the largest score."""
    layer, head = divmod(int(scores.argmax()), scores.shape[1])
    return layer, head
