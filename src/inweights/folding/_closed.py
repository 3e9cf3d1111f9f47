"""The closed form: one update for each matrix, solved block by block on the stream as patched so far.

For each block, with the difference of the bare stream from the prompted one: the attention's output matrix is fitted to
the difference after attention; the matrices that read the MLP's input act on a corrected input; and the last matrix is
fitted to the remaining difference. Each block is fitted to what the blocks before it left.
("Transmuting prompts into weights", arXiv 2510.08734, with a control in the attention added.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.folding._examples import Batch, Examples
from inweights.folding._layers import Rule, ignore, solve_blocks
from inweights.folding._ridge import RidgeFit
from inweights.models import Model
from inweights.running import DEFAULT_LIMIT
from inweights.theory import Update


def closed_form(
    model: Model,
    examples: Examples,
    *,
    ridge: float = 0.3,
    answer_weight: float = 10.0,
    rank: int | None = None,
    energy: float | None = None,
    batch_tokens: int = 1024,
    limit: int = DEFAULT_LIMIT,
    after: Callable[[int, int], None] = ignore,
) -> dict[str, Update]:
    """One update `(out, in)` for each matrix that can be solved for, by parameter name.

    **Arguments:**

    - `ridge`: the penalty, as a share of the mean squared input.
    - `answer_weight`: the weight of a token of an answer relative to one of a query. The first token of a sequence
      has weight 0: attention uses it as a sink, and its hidden states are unlike all others.
    - `rank`, `energy`: each update is cut to so many columns, or to as few as keep this share of its effect, in the
      metric of its inputs; later blocks are fitted to the error of the cut. Without either, updates are of full rank.
    - `batch_tokens`, `limit`: tokens in a batch, and bytes of hidden states in memory; the rest goes to disk.
    - `after`: called with how many blocks are done, and of how many.

    Blocks that cannot be solved are left as they are (`left_out(model)` names them with reasons).
    """
    problems = Problems()
    problems.unless(0 < ridge < float("inf"), f"`ridge` is {ridge}, but must be a positive number.")
    good = 0 < answer_weight < float("inf")
    problems.unless(good, f"`answer_weight` is {answer_weight}, but must be a positive number.")
    problems.unless(rank is None or rank >= 1, f"`rank` is {rank}, but must be at least 1.")
    problems.unless(energy is None or 0 < energy <= 1, f"`energy` is {energy}, but must be above 0 and at most 1.")
    problems.stop()

    def weight(batch: Batch) -> Tensor:
        each = batch.real.to(torch.float32)
        each[batch.answers] = answer_weight
        each[:, 0] = 0
        return each

    def fit(name: str) -> RidgeFit:
        return RidgeFit(ridge, rank, energy, name)

    return solve_blocks(model, examples, Rule(weight, fit, fit, fit), batch_tokens, limit, after)
