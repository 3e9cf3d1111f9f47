"""Controls: models that learnt nothing, and a construction where in-context learning is gradient descent."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor

from inweights.compare._measures import Top, order_sensitivity, token_overlap
from inweights.compare._shots import orders as draw_orders
from inweights.lab.models import LSA, LSAModel, Softmax, SoftmaxModel, gd_construction
from inweights.models import Model


def untrained(model: Model, seed: int = 0, *, embeddings: bool = False) -> Model:
    """A model of the same shape with the weights that training would begin with.

    Its answers are close to uniform over the vocabulary, so that orders hardly change them and other weights hardly
    move them: overlaps are high and sensitivities low for a reason that has nothing to do with learning. With
    `embeddings`, the matrices of tokens are the trained ones, and only the blocks are untrained.
    """
    own: Any = model.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = type(own)._from_config(copy.deepcopy(own.config))
    made = made.to(device=model.device, dtype=model.dtype).eval()
    if embeddings:
        with torch.no_grad():
            for get in ("get_input_embeddings", "get_output_embeddings"):
                getattr(made, get)().weight.copy_(cast(Any, getattr(own, get)()).weight)
    word = "trained embeddings, untrained blocks" if embeddings else "untrained"
    return Model(made, model.tokenizer, f"{model.name} ({word})")


def construction(
    seed: int = 0, *, demonstrations: int = 4, queries: int = 20, dims: int = 16, classes: int = 40
) -> dict[str, list[float]]:
    """Linear attention with the weights of von Oswald et al., as a classifier: what equivalence looks like.

    Demonstrations are vectors with a score for each class; the prediction, read as logits, is one step of gradient
    descent from zero. Measured as on a language model, for each query: the order sensitivity over 10 orders, and the
    token overlap of the construction with the step itself, computed by autograd. `sgd_sensitivity` (a step for each
    demonstration) and `softmax_overlap` (softmax attention with the same weights) are the controls, for which
    equivalence is false.
    """
    random = torch.Generator().manual_seed(seed)
    xs = torch.randn(queries, demonstrations + 1, dims, generator=random, dtype=torch.float64)
    ys = torch.randn(queries, demonstrations + 1, classes, generator=random, dtype=torch.float64)
    rate = 4.0
    attention = gd_construction(LSAModel(LSA(), dims, classes).double(), rate, demonstrations)
    softmax = SoftmaxModel(Softmax(heads=1), dims, classes).double()
    softmax.load_state_dict(attention.state_dict())
    order = draw_orders(demonstrations, 10, random)
    last = torch.full((len(order), 1), demonstrations)
    places = torch.cat([order, last], 1)  # the query stays where it is
    with torch.no_grad():
        answers = torch.stack([attention(xs[:, p], ys[:, p])[:, -1] for p in places]).log_softmax(-1)
        other = softmax(xs, ys)[:, -1].log_softmax(-1)
    step = _one_step(xs, ys, rate).log_softmax(-1)
    stochastic = torch.stack([_each_in_turn(xs[:, p], ys[:, p], rate) for p in places]).log_softmax(-1)
    return {
        "order_sensitivity": order_sensitivity(answers).tolist(),
        "token_overlap": token_overlap(Top.of(answers[0]), Top.of(step)).tolist(),
        "sgd_sensitivity": order_sensitivity(stochastic).tolist(),
        "softmax_overlap": token_overlap(Top.of(other), Top.of(step)).tolist(),
    }


def _one_step(xs: Tensor, ys: Tensor, rate: float) -> Tensor:
    """The predictions for the last inputs, `(queries, classes)`, after one step from zero on half the mean squared
    error of the others."""
    n = xs.shape[1] - 1
    W = torch.zeros(len(xs), ys.shape[-1], xs.shape[-1], dtype=xs.dtype, requires_grad=True)
    missed = xs[:, :n] @ W.mT - ys[:, :n]
    (slope,) = torch.autograd.grad(missed.square().sum() / (2 * n), W)
    return (-rate * slope @ xs[:, -1].unsqueeze(-1)).squeeze(-1)


def _each_in_turn(xs: Tensor, ys: Tensor, rate: float) -> Tensor:
    """The same with a step for each demonstration, in its order."""
    n = xs.shape[1] - 1
    W = torch.zeros(len(xs), ys.shape[-1], xs.shape[-1], dtype=xs.dtype)
    for i in range(n):
        missed = ys[:, i] - (W @ xs[:, i].unsqueeze(-1)).squeeze(-1)
        W = W + rate / n / xs.shape[-1] * missed.unsqueeze(-1) * xs[:, i].unsqueeze(1)
    return (W @ xs[:, -1].unsqueeze(-1)).squeeze(-1)
