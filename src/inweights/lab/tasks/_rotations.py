"""Random rotations."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab._draw import Draw


def rotations(draw: Draw, dims: int) -> Tensor:
    """Orthogonal matrices from the Haar distribution, `(rows, dims, dims)`.

    Gram-Schmidt on the columns of a normal matrix gives such a matrix (Stewart 1980); each column is orthogonalised
    twice, against rounding. This uses only products: a library's factorisation may synchronise with the device.
    """
    columns = draw.normal(dims, dims)
    basis = columns[:, :, :0]
    for k in range(dims):
        column = columns[:, :, k : k + 1]
        for _ in range(2):
            column = column - basis @ (basis.mT @ column)
        basis = torch.cat([basis, column / column.norm(dim=1, keepdim=True)], 2)
    return basis


def skewed_roots(draw: Draw, dims: int) -> Tensor:
    """Standard deviations 1, 1/2, 1/3, … rescaled so that their squares have a mean of 1, `(dims,)`."""
    roots = 1 / torch.arange(1, dims + 1, dtype=draw.dtype, device=draw.device)
    return roots / roots.square().mean().sqrt()
