"""One Cholesky factor for all prefixes: what Gaussian predictors are made from.

The factor of the first i examples is a corner of the factor `L` of all of them. So `z = L⁻¹ y`, the surprises of the
labels one after the other, serves every prefix, and the answer to a query with covariances `k` is the sum of
`(L⁻¹ k)ⱼ zⱼ` over the examples j before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweights._errors import InputError


def innovations(gram: Tensor, *columns: Tensor) -> list[Tensor]:
    """`L⁻¹ column` for each column, `(batch, points, any)`, where `L Lᵀ = gram`, `(batch, points, points)`.

    In float64: a pivot is what remains of a variance after all examples before, and float32 leaves nothing of it.
    """
    factor, failed = torch.linalg.cholesky_ex(gram.double())
    if failed.any():
        raise InputError("The penalty is too small for these inputs: rounding hides it. Use the predictor ols instead.")
    solved = torch.linalg.solve_triangular(factor, torch.cat([c.double() for c in columns], -1), upper=False)
    return list(solved.split([c.shape[-1] for c in columns], -1))
