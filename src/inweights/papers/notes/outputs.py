"""Claims of the notes about labels with several components: the class `LinearAttentionGD(d_in, d_out)`."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers._random_blocks import each

INPUTS, EXAMPLES, QUERIES = 5, 20, 20


def attended(xs: Tensor, ys: Tensor, queries: Tensor, values: Tensor) -> Tensor:
    """The note's forward pass, `(batch, k, d_out)`: keys and queries are the inputs, values `(x, y) W_V`, where
    `values` is W_V, `(d_in + d_out, d_out)`; without a softmax or a scale."""
    return queries @ xs.mT @ (torch.cat([xs, ys], -1) @ values)


def note_values(outputs: int) -> Tensor:
    """The note's initial W_V: zero for inputs, the identity for labels."""
    return torch.cat([torch.zeros(INPUTS, outputs), torch.eye(outputs)]).double()


def one_step(xs: Tensor, ys: Tensor, queries: Tensor) -> Tensor:
    """The predictions `(batch, k, d_out)` of one step from zero on `1/2 Σ |W x − y|²`, the gradient by autograd."""
    W = torch.zeros(len(xs), ys.shape[-1], INPUTS, dtype=xs.dtype, requires_grad=True)
    loss = (xs @ W.mT - ys).square().sum() / 2
    (slope,) = torch.autograd.grad(loss, W)
    return queries @ -slope.mT


@claim("note-outputs", NOTES, "004, section 8.1", exact=True, cost=(0.2, 1))
def outputs(trial: Trial) -> Measurement:
    """With `d_out` outputs, the demonstration's class performs a step of gradient descent on a matrix: each output has
    a step of its own.

    Measured: for each context the largest difference of its predictions for 20 queries from those of one step from zero
    on half the sum of squared errors of all outputs, with the gradient by autograd.

    Control: values that mix outputs, by a random orthogonal matrix; and values that contain inputs as well.

    Settings: 5 inputs, 2, 3 and 8 outputs, 20 examples, noise 0.1, 50 contexts (full: 500), float64.
    """
    errors: list[Tensor] = []
    controls: list[Tensor] = []
    for count in (2, 3, 8):
        draw = trial.draw(trial.size(50, 500), count, dtype=torch.float64)
        xs, queries = draw.normal(EXAMPLES, INPUTS), draw.normal(QUERIES, INPUTS)
        ys = xs @ draw.normal(INPUTS, count) + 0.1 * draw.normal(EXAMPLES, count)
        wanted, own = one_step(xs, ys, queries), note_values(count)
        mixing = torch.linalg.qr(torch.randn(count, count, generator=trial.generator(), dtype=xs.dtype))[0]
        inputs = own.clone()
        inputs[0, 0] = 1.0
        errors.append(each(attended(xs, ys, queries, own), wanted).amax(-1))
        controls += [each(attended(xs, ys, queries, v), wanted).amax(-1) for v in (own @ mixing, inputs)]
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})
