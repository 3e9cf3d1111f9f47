"""The Lasso, for all prefixes and penalties, by following its regularisation path.

The weights are piecewise linear in the penalty, with breaks only where a coordinate becomes active or inactive
(Osborne, Presnell and Turlach 2000; Efron et al. 2004). The algorithm goes from break to break: it is exact at every
penalty and needs no convergence, and a small penalty costs only the breaks on the way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import InputError, Problems
from inweights.lab.predictors._classical import LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS
from inweights.lab.predictors._prefix import counts, grams, moments

# The squared norm of a column after projection on the complement of the active columns, relative to before: below this
# it counts as being in their span, since the rest may be rounding. Such a column adds nothing to the fit.
DEPENDENT = 1e-9


def lasso_path(xs: Tensor, ys: Tensor, penalties: Sequence[float]) -> Tensor:
    """The weights that minimise `‖y − X w‖² / 2n + α ‖w‖₁` for each prefix and each penalty α.

    `(batch, points, dims)`, `(batch, points)` → `(penalties, batch, points, dims)`.
    """
    if not penalties or min(penalties) <= 0:
        raise InputError(f"`penalties` is {list(penalties)}, but must be numbers above 0.")
    batch, points, dims = xs.shape
    X = xs.double()
    gram, moment = grams(X).flatten(0, 1), moments(X, ys.double()).flatten(0, 1)
    levels = torch.tensor(penalties, dtype=X.dtype, device=X.device) * counts(X).repeat(batch).unsqueeze(1)
    result = X.new_zeros(len(penalties), batch * points, dims)
    walk = _Walk(gram, moment)
    for _ in range(100 + 20 * dims):
        walk.record(levels, result)
        if not walk.go(levels.amin(1)):
            break
    else:
        raise InputError("The path of the Lasso goes in circles: the inputs are too degenerate for it.")
    return result.unflatten(1, (batch, points)).to(xs.dtype)


@PREDICTORS("lasso")
@dataclass(frozen=True, kw_only=True)
class Lasso(LinearPredictor):
    """`min ‖y − X w‖² / 2n + penalty ‖w‖₁`, the objective of scikit-learn, without an intercept (Garg et al. 2022).

    For several penalties use `lasso_path`, which takes hardly longer for five than for one.
    """

    penalty: float = 0.01

    def check(self, problems: Problems) -> None:
        problems.unless(self.penalty > 0, f"`penalty` is {self.penalty}, but must be above 0; for 0 there is ols.")

    def weights(self, xs: Tensor, ys: Tensor) -> Tensor:
        return lasso_path(xs, ys, [self.penalty])[0]


class _Walk:
    """The state of each problem on its path.

    With `level = n α`, a coordinate is active if its weight is not zero. `table` is `[XᵀX | Xᵀy]`, swept on the active
    coordinates: its rows give linear functions of the level, `start + level · slope`: the weights of active
    coordinates, and the correlations `Xᵀ(y − X w)` of the others, which stay within ± level. A coordinate becomes
    active where its correlation reaches that bound, and inactive where its weight is zero.
    """

    def __init__(self, gram: Tensor, moment: Tensor) -> None:
        self.table = torch.cat([gram, moment.unsqueeze(-1)], -1)  # (problems, dims, dims + 1)
        self.least = DEPENDENT * gram.diagonal(dim1=-2, dim2=-1)
        self.signs = torch.zeros_like(moment)  # of the active weights; 0 for the others
        self.problem = torch.arange(len(gram), device=gram.device)
        self.level = torch.full_like(moment[:, 0], torch.inf)
        self._look()

    def _look(self) -> None:
        """Computes the linear functions of this segment, and the level of its next break."""
        dims = self.table.shape[1]
        self.slope = (self.table[..., :dims] @ self.signs.unsqueeze(-1)).squeeze(-1)
        self.start = self.table[..., dims]
        up, down = 1 - self.slope, 1 + self.slope  # the speed of approach to the two bounds, if positive
        joins = torch.maximum(
            torch.where(up > 0, self.start / up, -torch.inf), torch.where(down > 0, -self.start / down, -torch.inf)
        )
        joins = torch.where(self.table.diagonal(dim1=-2, dim2=-1) > self.least, joins, -torch.inf)
        leaves = torch.where(self.signs * self.slope > 0, -self.start / self.slope, -torch.inf)
        first, self.which = torch.where(self.signs != 0, leaves, joins).max(1)
        self.next = torch.minimum(first, self.level)

    def record(self, levels: Tensor, result: Tensor) -> None:
        """Stores the weights at those levels that lie on the current segment."""
        here = levels[self.problem]
        passed = (self.next.unsqueeze(1) <= here) & (here < self.level.unsqueeze(1))
        for i in passed.any(0).nonzero().flatten().tolist():
            on = passed[:, i].nonzero().flatten()
            signs, line = self.signs[on], self.start[on] + here[on, i : i + 1] * self.slope[on]
            result[i, self.problem[on]] = signs * (signs * line).clamp(min=0)

    def go(self, last: Tensor) -> bool:
        """Moves to the next break. Returns False if all problems have passed their last level."""
        self.level = self.next
        on = self.level > last[self.problem]
        if 4 * int(on.sum()) < 3 * len(on):  # drop finished problems
            for name in ("table", "least", "signs", "problem", "level", "start", "slope", "which"):
                setattr(self, name, getattr(self, name)[on])
        if len(self.problem) == 0:
            return False
        k = self.which.unsqueeze(1)
        joining = (self.start + self.level.unsqueeze(1) * self.slope).gather(1, k).sign()
        self.signs.scatter_(1, k, torch.where(self.signs.gather(1, k) == 0, joining, 0))
        self._sweep(k)
        self._look()
        return True

    def _sweep(self, k: Tensor) -> None:
        """Makes coordinate `k` of each problem active, or inactive again, by the sweep operator, which is its own
        inverse up to signs (Goodnight 1979)."""
        each = torch.arange(len(k), device=k.device).unsqueeze(1)
        row, column = self.table[each, k], self.table.gather(2, k.unsqueeze(1).expand(-1, self.table.shape[1], 1))
        pivot = row.gather(2, k.unsqueeze(1))
        self.table.addcmul_(column / -pivot, row)
        self.table[each, k] = row / pivot.abs()
        self.table.scatter_(2, k.unsqueeze(1).expand_as(column), column / pivot.abs())
        self.table[each, k, k] = -1 / pivot.squeeze(1)
