"""One Cholesky factor for all prefixes, for Gaussian predictors.

The factor of the first i examples is the leading block of the factor `L` of all examples. So `z = L⁻¹ y`, the
innovations of the labels, serves every prefix, and the prediction for a query with covariances `k` is the sum of
`(L⁻¹ k)ⱼ zⱼ` over the examples j before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweights._errors import InputError


def innovations(gram: Tensor, *columns: Tensor) -> list[Tensor]:
    """`L⁻¹ column` for each column, `(batch, points, any)`, where `L Lᵀ = gram`, `(batch, points, points)`.

    In float64: a pivot is the variance left after all previous examples, which can be lost to rounding in float32.
    """
    factor, failed = torch.linalg.cholesky_ex(gram.double())
    if failed.any():
        raise InputError("The penalty is too small for these inputs: rounding hides it. Use the predictor ols instead.")
    solved = torch.linalg.solve_triangular(factor, torch.cat([c.double() for c in columns], -1), upper=False)
    return list(solved.split([c.shape[-1] for c in columns], -1))
