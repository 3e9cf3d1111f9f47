"""The implicit weights of a model with predictions linear in the query, measured with all unit vectors as queries."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.papers._descent import Answers


def asked_weights(model: Answers, xs: Tensor, ys: Tensor) -> Tensor:
    """The weights after all points but the last, which is ignored: `(batch, points, dims)` → `(batch, dims)`."""
    batch, _, dims = xs.shape
    queries = torch.eye(dims).to(xs).repeat(batch, 1).unsqueeze(1)
    prompts = torch.cat([xs[:, :-1].repeat_interleave(dims, 0), queries], 1)
    return model(prompts, ys.repeat_interleave(dims, 0))[:, -1].view(batch, dims)


def apart(result: Tensor, wanted: Tensor) -> Tensor:
    """The distance of vectors relative to the norm of the second: `(batch, dims)` → `(batch,)`."""
    return (result - wanted).norm(dim=-1) / wanted.norm(dim=-1)
