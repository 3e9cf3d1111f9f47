"""Gradient descent written into linear self-attention, and interpolation between two models."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.lab.models._forms import Factors
from inweights.lab.models._lsa import LSAModel, SoftmaxModel

Rates = float | Sequence[float]
"""One number for all layers, or one for each layer with its own weights."""


def gd_construction(model: LSAModel, eta: Rates, examples: int) -> LSAModel:
    """Writes gradient descent from zero on `1/(2N) Σ |W x − y|²` into a model: Proposition 1 of von Oswald et al. 2023.

    **Arguments:**

    - `model`: an lsa; every layer becomes a step. The weights have the precision of its dtype: convert it to double
      first.
    - `eta`: the step size.
    - `examples`: N. The step is `eta / N` for any prompt, or `eta / n` in the forms that average over the n examples.

    **Returns:** the model.
    """
    return gdpp_construction(model, eta, 0.0, examples)


def gdpp_construction(model: LSAModel, eta: Rates, gamma: Rates, examples: int) -> LSAModel:
    """Writes GD++ (A.10 there) into a model: with each step on the labels, inputs become `(I − γ X Xᵀ) x`."""
    if isinstance(model, SoftmaxModel):
        raise InputError("Gradient descent can be written into the model lsa alone.")
    own = next(model.form.parameters())
    layers, heads = own.shape[:2]
    etas, gammas = _per_layer(eta, layers, own), _per_layer(gamma, layers, own)
    width = model.dims + model.outputs
    is_input = (torch.arange(width, device=own.device) < model.dims).to(own.dtype)
    first = (torch.arange(heads, device=own.device) == 0).to(own.dtype)[:, None, None]  # other heads have no effect
    out = -torch.where(is_input.bool(), gammas, etas / examples)  # (layers, width): the diagonal of P W_V
    if model.form.averaged:
        out = out * examples
    model.form.write(
        torch.diag_embed(out).unsqueeze(1) * first, (torch.diag(is_input) * first).expand(layers, -1, -1, -1)
    )
    return model


def _per_layer(rates: Rates, layers: int, like: Tensor) -> Tensor:
    """The rates as `(layers, 1)`."""
    given = torch.as_tensor(rates, dtype=like.dtype, device=like.device).reshape(-1, 1)
    if len(given) not in (1, layers):
        raise InputError(f"There are {len(given)} step sizes, but {layers} layers with weights of their own.")
    return given.expand(layers, 1)


def interpolate(one: LSAModel, other: LSAModel, share: float = 0.5) -> LSAModel:
    """A model with the weighted mean of two models' weights, `share` of the first; both with one layer and one head, of
    the form factors.

    Equivalent models can have different weights: only `P W_V` and `W_Kᵀ W_Q` matter, and a factor can be moved from one
    to the other. Both models are therefore first rescaled so that the diagonal of `W_Kᵀ W_Q` over the inputs is 1 on
    average, as in von Oswald et al.
    """
    for model in (one, other):
        one_head = type(model) is LSAModel and model.layers == 1 and len(model.form.products()[0][0]) == 1
        same = isinstance(model.form, Factors) and (model.dims, model.outputs) == (one.dims, one.outputs)
        if not (one_head and same):
            raise InputError(
                "Only models lsa of one layer and one head, of the form factors and one size, can be mixed."
            )
    mixed = copy.deepcopy(one)
    pairs = zip(_scaled(one), _scaled(other), strict=True)
    mixed.form.write(*(share * a + (1 - share) * b for a, b in pairs))
    return mixed


def _scaled(model: LSAModel) -> tuple[Tensor, Tensor]:
    out, compare = model.form.products()
    scale = compare[..., : model.dims, : model.dims].diagonal(dim1=-2, dim2=-1).mean()
    return out * scale, compare / scale
