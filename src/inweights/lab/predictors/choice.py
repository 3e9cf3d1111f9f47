"""Selection of an algorithm by the noise and the linearity of the examples, as a seed note sketches it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems
from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors.kernel import KernelRidge
from inweights.lab.predictors.ols import OLS
from inweights.lab.predictors.ridge import Ridge

LEAST = 3
"""The fewest examples that are tested; with less, least squares are used."""


@PREDICTORS("choice")
@dataclass(frozen=True, kw_only=True)
class Choice(Classical):
    """Least squares, ridge regression or kernel regression, by what the examples look like (note 004, section 5.2).

    - Linearity is the error of kernel regression divided by that of ridge regression, each on examples that are left
      out one at a time; the note only names a test of linearity. Above `linearity`, the examples are linear.
    - Noise is the root of the mean squared error of ridge regression on examples left out. Below `noise`, linear
      examples are fitted by least squares, else by ridge regression.
    - `penalty` is that of ridge and kernel regression; the kernel is Gaussian, `√(2 dims)` wide.
    """

    noise: float = 0.5
    linearity: float = 1.0
    penalty: float = 0.25

    def check(self, problems: Problems) -> None:
        for name, value in (("noise", self.noise), ("linearity", self.linearity), ("penalty", self.penalty)):
            problems.unless(value > 0, f"`{name}` is {value}, but must be above 0.")

    def choose(self, xs: Tensor, ys: Tensor) -> Tensor:
        """`(batch, points)`: 0 for least squares, 1 for ridge and 2 for kernel regression, after the examples before
        each point."""
        X, y = xs.double(), ys.double()
        linear, curved = X @ X.mT, _gaussian(X)
        choices = []
        for n in range(xs.shape[1]):
            if n < LEAST:
                choices.append(torch.zeros(len(xs), dtype=torch.long, device=xs.device))
                continue
            errors = [left_out(gram[:, :n, :n], y[:, :n], self.penalty) for gram in (linear, curved)]
            straight = errors[1] > self.linearity * errors[0]
            quiet = errors[0].sqrt() < self.noise
            choices.append(torch.where(straight, torch.where(quiet, 0, 1), 2))
        return torch.stack(choices, 1)

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        scale = (2 * xs.shape[-1]) ** 0.5
        among = OLS(), Ridge(penalty=self.penalty), KernelRidge(penalty=self.penalty, scale=scale)
        answers = torch.stack([p.predict_prefixes(xs, ys, queries) for p in among])
        return answers.gather(0, self.choose(xs, ys).unsqueeze(0)).squeeze(0)


def left_out(gram: Tensor, ys: Tensor, penalty: float) -> Tensor:
    """The mean squared error of kernel regression on each example, fitted to all others, `(batch,)`; `gram` is `(batch,
    n, n)`. One inverse `G` serves all of them: an error is `(G y)_i / G_ii`."""
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inverse = torch.linalg.inv(gram + penalty * eye)
    errors = (inverse @ ys.unsqueeze(-1)).squeeze(-1) / inverse.diagonal(dim1=1, dim2=2)
    return errors.square().mean(1)


def _gaussian(X: Tensor) -> Tensor:
    """The matrix of the kernel, `(batch, points, points)`."""
    distance = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")
    return (-distance.square() / (4 * X.shape[-1])).exp()
