"""Algorithm selection in context, in the two ways of Bai et al. 2023: by a test on the labels, or by validation."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._every import every_query
from inweights.lab.predictors._predictor import PREDICTORS, Predictor
from inweights.lab.predictors._prefix import before, earlier
from inweights.lab.predictors.logistic import LogisticPredictor
from inweights.lab.predictors.ols import OLS
from inweights.lab.predictors.ridge import Ridge


@PREDICTORS("pretest")
@dataclass(frozen=True, kw_only=True)
class PreTest(Classical):
    """Pre-ICL testing: the predictor `binary` if every label so far is one of the two `classes`, else `real`.

    Without examples, `binary` is used.
    """

    binary: Predictor = field(default_factory=LogisticPredictor)
    real: Predictor = field(default_factory=OLS)
    classes: tuple[float, float] = (-1.0, 1.0)

    def check(self, problems: Problems) -> None:
        problems.unless(len(set(self.classes)) == 2, f"`classes` is {self.classes}, but must be two different labels.")

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        low, high = self.classes
        others = before(((ys != low) & (ys != high)).long())
        binary, real = (p.predict_prefixes(xs, ys, queries) for p in (self.binary, self.real))
        return torch.where(others == 0, binary, real)


@PREDICTORS("validation")
@dataclass(frozen=True, kw_only=True)
class Validation(Classical):
    """Post-ICL validation: all predictors in `among` are fitted to the first `share` of the examples, and the one with
    the least squared error on the others is used; the first one if several are equal. As in the paper, it is not
    refitted to all examples.
    """

    among: tuple[Predictor, ...] = (Ridge(penalty=0.2), Ridge(penalty=5.0))
    share: float = 0.5

    def check(self, problems: Problems) -> None:
        problems.unless(len(self.among) > 0, "`among` is empty, but must have a predictor to choose.")
        problems.unless(0 < self.share < 1, f"`share` is {self.share}, but must be between 0 and 1.")

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        errors, answers = [], []
        at = torch.arange(xs.shape[1], device=xs.device)
        learned = (at.double() * self.share - 1e-9).ceil().long()  # of the prefix of each length, rounding aside
        held_out = earlier(len(at), xs.device) & (at >= learned.unsqueeze(1))
        for predictor in self.among:
            known = every_query(predictor, xs, ys, xs)[:, learned]
            errors.append(((known - ys.unsqueeze(1)).square() * held_out).sum(-1))
            asked = known if queries is None else every_query(predictor, xs, ys, queries)[:, learned]
            answers.append(asked.diagonal(dim1=1, dim2=2))
        best = torch.stack(errors).argmin(0, keepdim=True)
        return torch.stack(answers).gather(0, best).squeeze(0)
