"""The optimal predictor for weights from a known finite pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import Classical, check_width
from inweights.lab.predictors._predictor import PREDICTORS


@PREDICTORS("dmmse")
@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteMMSE(Classical):
    """The posterior mean of the pool's predictions, weighted by the likelihood of the examples (Raventós et al. 2023).

    `pool` is `(tasks, dims)`, `noise` the standard deviation of the labels' noise.
    """

    pool: Tensor
    noise: float = 0.5

    def check(self, problems: Problems) -> None:
        shape = tuple(self.pool.shape)
        problems.unless(
            len(shape) == 2 and shape[0] > 0, f"`pool` has shape {shape}, but must be (tasks, dims), with a task."
        )
        problems.unless(self.noise > 0, f"`noise` is {self.noise}, but must be above 0.")

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        """One pass over the examples, with the log-likelihoods of the whole pool, `(batch, tasks)`."""
        check_width("pool", self.pool.shape[1], xs)
        pool = self.pool.to(xs).mT.contiguous()
        likely = xs.new_zeros(len(xs), len(self.pool))  # logarithms
        results = []
        asked = xs if queries is None else queries
        for x, y, query in zip(xs.unbind(1), ys.unsqueeze(-1).unbind(1), asked.unbind(1), strict=True):
            answers = x @ pool
            belief = torch.softmax(likely, -1)
            results.append(torch.linalg.vecdot(belief, answers if queries is None else query @ pool))
            likely.add_(answers.sub_(y).square_(), alpha=-0.5 / self.noise**2)
        return torch.stack(results, 1)
